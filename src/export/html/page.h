/* HTML page around the profile, generated from this directory by embed.py. */
#ifndef EXPORT_HTML_PAGE_H
#define EXPORT_HTML_PAGE_H

#include <stddef.h>

extern const char html_page_head[]; /* up to the JSON of the profile */
extern const size_t html_page_head_bytes;
extern const char html_page_tail[];
extern const size_t html_page_tail_bytes;

#endif
