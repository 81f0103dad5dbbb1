// SPDX-License-Identifier: Apache-2.0
// config_keys — the one table of what can be configured. config.c reads by it, --help and the man page are printed from it.
#ifndef CONFIG_CONFIG_KEYS_H
#define CONFIG_CONFIG_KEYS_H

#include "config/config.h"

enum key_type { KEY_STRING, KEY_PATH, KEY_BOOL, KEY_INT, KEY_DURATION, KEY_SIZE, KEY_ENUM, KEY_PATHS };

struct config_key {
    const char *section, *name;
    enum key_type type;
    size_t offset;            // of the field in struct config
    const char *dflt;         // as text; NULL = not set
    int64_t min, max;         // numbers: the field's unit (ms, bytes, count)
    const char *const *words; // KEY_ENUM: NULL-terminated, by value
    const char *help;
};

extern const struct config_key config_keys[];
extern const size_t n_config_keys;

// Nearest key name of a section (or nearest section when `section_only`), for "did you mean". NULL: nothing is near.
const char *config_nearest(const char *section, const char *name, bool section_only);

#endif
