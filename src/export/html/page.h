/* The page around a profile, made of the files of this directory by embed.py. */
#ifndef EXPORT_HTML_PAGE_H
#define EXPORT_HTML_PAGE_H

#include <stddef.h>

extern const char html_page_head[]; /* to the place where the profile's JSON begins */
extern const size_t html_page_head_bytes;
extern const char html_page_tail[];
extern const size_t html_page_tail_bytes;

#endif
