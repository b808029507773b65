/*
 * Field numbers and enum values of Perfetto's trace format, which never change. They are from
 * protos/perfetto/trace in Perfetto's repository: trace.proto, trace_packet.proto,
 * clock_snapshot.proto, interned_data/interned_data.proto, and in track_event/ track_event.proto,
 * track_descriptor.proto, process_descriptor.proto, thread_descriptor.proto,
 * counter_descriptor.proto and debug_annotation.proto.
 */
#pragma once

enum {
	TRACE_PACKET = 1,

	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_COMPRESSED = 50, /* packets as a zlib stream */
	PACKET_TRACK_DESCRIPTOR = 60,

	SEQUENCE_CLEARED = 1, /* the numbers of names start here */
	SEQUENCE_NEEDS_NAMES = 2,

	SNAPSHOT_CLOCK = 1,
	CLOCK_ID = 1,
	CLOCK_TIMESTAMP = 2,
	CLOCK_REAL = 1,
	CLOCK_BOOT = 6, /* the default clock of timestamps */

	INTERNED_CATEGORY = 1,
	INTERNED_EVENT_NAME = 2,
	INTERNED_ANNOTATION_NAME = 3,
	INTERNED_ANNOTATION_STRING = 29,
	INTERNED_ID = 1,
	INTERNED_TEXT = 2,

	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD_DESCRIPTOR = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	TRACK_CHILD_ORDERING = 11,
	TRACK_SIBLING_RANK = 12,
	CHILD_ORDERING_EXPLICIT = 3,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,

	EVENT_CATEGORY_ID = 3,
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_ID = 10,
	EVENT_TRACK = 11,
	EVENT_NAME = 23,
	EVENT_COUNTER_INT = 30,
	EVENT_COUNTER_DOUBLE = 44,
	EVENT_FLOW = 47,
	EVENT_FLOW_END = 48,
	TYPE_BEGIN = 1,
	TYPE_END = 2,
	TYPE_INSTANT = 3,
	TYPE_COUNTER = 4,

	ANNOTATION_NAME_ID = 1,
	ANNOTATION_BOOL = 2,
	ANNOTATION_UINT = 3,
	ANNOTATION_INT = 4,
	ANNOTATION_DOUBLE = 5,
	ANNOTATION_STRING = 6,
	ANNOTATION_NAME = 10,
	ANNOTATION_ARRAY = 12,
	ANNOTATION_STRING_ID = 17,
};
