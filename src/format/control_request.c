/* Requests of `proton ctl`: reading and writing them. */
#include "format/control_request.h"

#include "base/array.h"

static const char *const commands[] = {"start", "stop", "snapshot", "status", "leave"};
static const char *const keys[] = {
	"name", "backend", "context", "mode", "data", "hook", "format", "memory", "own_pid",
};
_Static_assert(ARRAY_LENGTH(commands) == CONTROL_COMMAND_COUNT, "every command has a name");
_Static_assert(ARRAY_LENGTH(keys) == CONTROL_OPTION_COUNT, "every option has a key");

const char *control_command_name(enum control_command command)
{
	return command < CONTROL_COMMAND_COUNT ? commands[command] : NULL;
}

bool control_command_find(const char *name, enum control_command *out)
{
	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
		if (strcmp(name, commands[i]) == 0) {
			*out = (enum control_command)i;
			return true;
		}
	}
	return false;
}

static int take_option(const char *text, struct control_request *request, struct proton_error *err)
{
	size_t length = strcspn(text, "=");

	for (size_t i = 0; text[length] && i < ARRAY_LENGTH(keys); i++) {
		if (strlen(keys[i]) != length || memcmp(keys[i], text, length) != 0)
			continue;
		if (request->options[i])
			return err_set(err, PROTON_E_INVALID, "the option %s is given twice",
				       keys[i]);
		request->options[i] = text + length + 1;
		return PROTON_OK;
	}
	return err_set(err, PROTON_E_INVALID,
		       "unknown option \"%.*s\"; use the proton ctl of this program's version",
		       (int)(length < 64 ? length : 64), text);
}

int control_request_read(const char *bytes, size_t length, struct control_request *out,
			 struct proton_error *err)
{
	struct control_request request = {0};
	const char *end = bytes + length;

	if (length > CONTROL_REQUEST_MAX)
		return err_set(err, PROTON_E_INVALID, "the request is longer than %u bytes",
			       CONTROL_REQUEST_MAX);
	if (length == 0 || end[-1] != '\0')
		return err_set(err, PROTON_E_INVALID, "the request is incomplete");
	if (strcmp(bytes, CONTROL_PROTOCOL) != 0)
		return err_set(err, PROTON_E_VERSION,
			       "the request is not of \"" CONTROL_PROTOCOL "\"; use the proton "
			       "ctl of this program's version");
	const char *command = bytes + sizeof(CONTROL_PROTOCOL);
	if (command == end)
		return err_set(err, PROTON_E_INVALID, "the request has no command");
	if (!control_command_find(command, &request.command))
		return err_set(err, PROTON_E_INVALID,
			       "unknown command \"%.64s\"; there are start, stop, snapshot, "
			       "status and leave",
			       command);
	for (const char *at = command + strlen(command) + 1; at < end; at += strlen(at) + 1)
		TRY(take_option(at, &request, err));
	*out = request;
	return PROTON_OK;
}

/* Appends a string and its NUL; a length over `capacity` stays over it. */
static size_t put_text(char *bytes, size_t used, size_t capacity, const char *text, size_t length)
{
	if (used <= capacity && length <= capacity - used) {
		memcpy(bytes + used, text, length);
		return used + length;
	}
	return capacity + 1;
}

size_t control_request_write(const struct control_request *request, char *bytes, size_t capacity)
{
	const char *command = commands[request->command];
	size_t used = put_text(bytes, 0, capacity, CONTROL_PROTOCOL, sizeof(CONTROL_PROTOCOL));

	used = put_text(bytes, used, capacity, command, strlen(command) + 1);
	for (size_t i = 0; i < ARRAY_LENGTH(keys); i++) {
		const char *value = request->options[i];

		if (!value)
			continue;
		used = put_text(bytes, used, capacity, keys[i], strlen(keys[i]));
		used = put_text(bytes, used, capacity, "=", 1);
		used = put_text(bytes, used, capacity, value, strlen(value) + 1);
	}
	return used <= capacity ? used : 0;
}
