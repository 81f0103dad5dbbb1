// SPDX-License-Identifier: Apache-2.0
#include "data/json_scan.h"

#include <string.h>

// What may come next. Outside of strings, words and numbers white space is skipped.
enum state {
    ST_VALUE,      // a value
    ST_FIRST_ITEM, // a value, or the end of an empty array
    ST_FIRST_KEY,  // a name, or the end of an empty object
    ST_NEXT_KEY,   // a name
    ST_COLON,
    ST_AFTER, // a comma or the end of the container; nothing at all after the document
    ST_STRING,
    ST_ESCAPE,
    ST_HEX,
    ST_LOW_BACKSLASH, // the backslash of a low surrogate
    ST_LOW_U,         // ... and its u
    ST_UTF8,
    ST_WORD,
    ST_NUMBER,
};

// Numbers are a machine of their own: state by class of byte. N_BAD refuses, N_END ends the number before this byte.
enum number { N_BEGIN, N_MINUS, N_ZERO, N_INT, N_DOT, N_FRAC, N_E, N_ESIGN, N_EXP, N_BAD, N_END };
enum number_class { C_ZERO, C_DIGIT, C_MINUS, C_PLUS, C_DOT, C_E, C_OTHER, C_CLASSES };

static const uint8_t number_next[N_BAD][C_CLASSES] = {
    //            0       1-9     -        +        .      e      other
    [N_BEGIN] = { N_ZERO, N_INT, N_MINUS, N_BAD, N_BAD, N_BAD, N_BAD }, [N_MINUS] = { N_ZERO, N_INT, N_BAD, N_BAD, N_BAD, N_BAD, N_BAD },
    [N_ZERO] = { N_BAD, N_BAD, N_BAD, N_BAD, N_DOT, N_E, N_END },       [N_INT] = { N_INT, N_INT, N_BAD, N_BAD, N_DOT, N_E, N_END },
    [N_DOT] = { N_FRAC, N_FRAC, N_BAD, N_BAD, N_BAD, N_BAD, N_BAD },    [N_FRAC] = { N_FRAC, N_FRAC, N_BAD, N_BAD, N_BAD, N_E, N_END },
    [N_E] = { N_EXP, N_EXP, N_ESIGN, N_ESIGN, N_BAD, N_BAD, N_BAD },    [N_ESIGN] = { N_EXP, N_EXP, N_BAD, N_BAD, N_BAD, N_BAD, N_BAD },
    [N_EXP] = { N_EXP, N_EXP, N_BAD, N_BAD, N_BAD, N_BAD, N_END },
};

static enum number_class number_class(unsigned char c)
{
    switch (c) {
    case '0':
        return C_ZERO;
    case '-':
        return C_MINUS;
    case '+':
        return C_PLUS;
    case '.':
        return C_DOT;
    case 'e':
    case 'E':
        return C_E;
    default:
        return c >= '1' && c <= '9' ? C_DIGIT : C_OTHER;
    }
}

void json_scan_init(struct json_scan *s)
{
    *s = (struct json_scan){ .state = ST_VALUE };
}

static enum scan_event bad(struct json_scan *s, const char *why)
{
    s->why = why;
    return SCAN_BAD;
}

static bool in_object(const struct json_scan *s)
{
    int top = s->depth - 1;
    return top >= 0 && (s->objects[top / 8] >> (top % 8) & 1) != 0;
}

static enum scan_event open_container(struct json_scan *s, bool object)
{
    if (s->depth == JSON_SCAN_DEPTH)
        return bad(s, "nested too deeply");
    unsigned char bit = (unsigned char)(1U << s->depth % 8), *at = &s->objects[s->depth / 8];
    *at = (unsigned char)(object ? *at | bit : *at & ~bit);
    s->depth++;
    s->deepest = MAX(s->deepest, s->depth);
    s->state = object ? ST_FIRST_KEY : ST_FIRST_ITEM;
    return SCAN_MORE;
}

static enum scan_event end_value(struct json_scan *s)
{
    s->state = ST_AFTER;
    return SCAN_VALUE_END;
}

static enum scan_event close_container(struct json_scan *s, bool object)
{
    if (s->depth == 0 || in_object(s) != object)
        return bad(s, "closes what is not open");
    s->depth--;
    return end_value(s);
}

static enum scan_event begin_string(struct json_scan *s, bool key)
{
    s->in_key = key;
    s->state = ST_STRING;
    return SCAN_MORE;
}

static enum scan_event begin_word(struct json_scan *s, const char *rest)
{
    s->word = rest;
    s->state = ST_WORD;
    return SCAN_MORE;
}

// The first byte of a value.
static enum scan_event begin_value(struct json_scan *s, unsigned char c)
{
    switch (c) {
    case '{':
        return open_container(s, true);
    case '[':
        return open_container(s, false);
    case '"':
        return begin_string(s, false);
    case 't':
        return begin_word(s, "rue");
    case 'f':
        return begin_word(s, "alse");
    case 'n':
        return begin_word(s, "ull");
    default:
        s->number = number_next[N_BEGIN][number_class(c)];
        s->state = ST_NUMBER;
        return s->number == N_BAD ? bad(s, "a value is expected") : SCAN_MORE;
    }
}

// A begin is answered before its byte is consumed, so that *at points at it; the next call consumes.
static bool announce(struct json_scan *s)
{
    s->announced = !s->announced;
    return s->announced;
}

static enum scan_event step_value(struct json_scan *s, unsigned char c, size_t *at)
{
    if (s->state == ST_FIRST_ITEM && c == ']') {
        ++*at;
        return close_container(s, false);
    }
    if (announce(s))
        return SCAN_VALUE_BEGIN;
    enum scan_event ev = begin_value(s, c);
    *at += ev != SCAN_BAD;
    return ev;
}

static enum scan_event step_key(struct json_scan *s, unsigned char c, size_t *at)
{
    if (s->state == ST_FIRST_KEY && c == '}') {
        ++*at;
        return close_container(s, true);
    }
    if (c != '"')
        return bad(s, "a member name is expected");
    if (announce(s))
        return SCAN_KEY_BEGIN;
    ++*at;
    return begin_string(s, true);
}

static enum scan_event step_after(struct json_scan *s, unsigned char c, size_t *at)
{
    if (s->depth == 0)
        return bad(s, "bytes after the document");
    if (c == '}' || c == ']') {
        enum scan_event ev = close_container(s, c == '}');
        *at += ev != SCAN_BAD;
        return ev;
    }
    if (c != ',')
        return bad(s, "a comma or the end of the container is expected");
    ++*at;
    s->state = in_object(s) ? ST_NEXT_KEY : ST_VALUE;
    return SCAN_MORE;
}

static enum scan_event step_structure(struct json_scan *s, unsigned char c, size_t *at)
{
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
        ++*at;
        return SCAN_MORE;
    }
    switch (s->state) {
    case ST_VALUE:
    case ST_FIRST_ITEM:
        return step_value(s, c, at);
    case ST_FIRST_KEY:
    case ST_NEXT_KEY:
        return step_key(s, c, at);
    case ST_COLON:
        if (c != ':')
            return bad(s, "a colon is expected");
        ++*at;
        s->state = ST_VALUE;
        return SCAN_MORE;
    default:
        return step_after(s, c, at);
    }
}

// The first byte of a multi-byte character: how many follow, and the bounds of the next (overlong forms, surrogates and what lies
// beyond U+10FFFF are cut off there).
static enum scan_event begin_utf8(struct json_scan *s, unsigned char c)
{
    s->lo = 0x80;
    s->hi = 0xbf;
    if (c >= 0xc2 && c <= 0xdf) {
        s->need = 1;
    } else if (c >= 0xe0 && c <= 0xef) {
        s->need = 2;
        s->lo = c == 0xe0 ? 0xa0 : 0x80;
        s->hi = c == 0xed ? 0x9f : 0xbf;
    } else if (c >= 0xf0 && c <= 0xf4) {
        s->need = 3;
        s->lo = c == 0xf0 ? 0x90 : 0x80;
        s->hi = c == 0xf4 ? 0x8f : 0xbf;
    } else {
        return bad(s, "not UTF-8");
    }
    s->state = ST_UTF8;
    return SCAN_MORE;
}

static enum scan_event step_utf8(struct json_scan *s, unsigned char c, size_t *at)
{
    if (c < s->lo || c > s->hi)
        return bad(s, "not UTF-8");
    ++*at;
    s->lo = 0x80;
    s->hi = 0xbf;
    if (--s->need == 0)
        s->state = ST_STRING;
    return SCAN_MORE;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static enum scan_event step_string(struct json_scan *s, const char *p, size_t n, size_t *at)
{
    while (*at < n && is_plain((unsigned char)p[*at]))
        ++*at;
    if (*at == n)
        return SCAN_MORE;
    unsigned char c = (unsigned char)p[*at];
    if (c < 0x20)
        return bad(s, "a control character in a string");
    if (c >= 0x80) {
        enum scan_event ev = begin_utf8(s, c);
        *at += ev != SCAN_BAD;
        return ev;
    }
    ++*at;
    if (c == '\\') {
        s->state = ST_ESCAPE;
        return SCAN_MORE;
    }
    if (!s->in_key)
        return end_value(s);
    s->state = ST_COLON;
    return SCAN_KEY_END;
}

static enum scan_event step_escape(struct json_scan *s, unsigned char c, size_t *at)
{
    if (c == 0 || strchr("\"\\/bfnrtu", c) == NULL)
        return bad(s, "no such escape");
    ++*at;
    s->state = c == 'u' ? ST_HEX : ST_STRING;
    s->digits = 4;
    s->unit = 0;
    return SCAN_MORE;
}

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// A whole \uXXXX was read.
static enum scan_event end_unit(struct json_scan *s)
{
    bool low = s->unit >= 0xdc00 && s->unit <= 0xdfff;
    if (low != (s->leader != 0))
        return bad(s, "half a surrogate pair");
    s->leader = s->unit >= 0xd800 && s->unit <= 0xdbff ? s->unit : 0;
    s->state = s->leader != 0 ? ST_LOW_BACKSLASH : ST_STRING;
    s->has_nul = s->has_nul || s->unit == 0;
    return SCAN_MORE;
}

static enum scan_event step_hex(struct json_scan *s, unsigned char c, size_t *at)
{
    int v = hex_value(c);
    if (v < 0)
        return bad(s, "a hexadecimal digit is expected");
    s->unit = s->unit << 4 | (uint32_t)v;
    if (--s->digits == 0 && end_unit(s) == SCAN_BAD)
        return SCAN_BAD;
    ++*at;
    return SCAN_MORE;
}

static enum scan_event step_low(struct json_scan *s, unsigned char c, size_t *at)
{
    bool backslash = s->state == ST_LOW_BACKSLASH;
    if (c != (backslash ? '\\' : 'u'))
        return bad(s, "half a surrogate pair");
    ++*at;
    s->state = backslash ? ST_LOW_U : ST_HEX;
    s->digits = 4;
    s->unit = 0;
    return SCAN_MORE;
}

static enum scan_event step_word(struct json_scan *s, unsigned char c, size_t *at)
{
    if (c != (unsigned char)*s->word)
        return bad(s, "neither true, false nor null");
    ++*at;
    return *++s->word == 0 ? end_value(s) : SCAN_MORE;
}

static enum scan_event step_number(struct json_scan *s, unsigned char c, size_t *at)
{
    uint8_t next = number_next[s->number][number_class(c)];
    if (next == N_BAD)
        return bad(s, "no number looks like that");
    if (next == N_END)
        return end_value(s);
    s->number = next;
    ++*at;
    return SCAN_MORE;
}

static enum scan_event step(struct json_scan *s, const char *p, size_t n, size_t *at)
{
    unsigned char c = (unsigned char)p[*at];
    switch (s->state) {
    case ST_STRING:
        return step_string(s, p, n, at);
    case ST_ESCAPE:
        return step_escape(s, c, at);
    case ST_HEX:
        return step_hex(s, c, at);
    case ST_LOW_BACKSLASH:
    case ST_LOW_U:
        return step_low(s, c, at);
    case ST_UTF8:
        return step_utf8(s, c, at);
    case ST_WORD:
        return step_word(s, c, at);
    case ST_NUMBER:
        return step_number(s, c, at);
    default:
        return step_structure(s, c, at);
    }
}

enum scan_event json_scan_run(struct json_scan *s, const char *p, size_t n, size_t *at)
{
    size_t from = *at;
    enum scan_event ev = SCAN_MORE;
    while (*at < n && ev == SCAN_MORE)
        ev = step(s, p, n, at);
    s->offset += *at - from;
    return ev;
}

bool json_scan_done(const struct json_scan *s)
{
    if (s->depth > 0 || s->why != NULL)
        return false;
    // Only a number at the top has no last byte of its own.
    return s->state == ST_AFTER || (s->state == ST_NUMBER && number_next[s->number][C_OTHER] == N_END);
}

int json_check(const char *text, size_t len, struct json_facts *facts, struct err *e)
{
    struct json_scan s;
    json_scan_init(&s);
    size_t at = 0;
    while (at < len)
        if (json_scan_run(&s, text, len, &at) == SCAN_BAD)
            return err_set(e, E_INVAL, "JSON at byte %zu: %s", s.offset, s.why);
    if (!json_scan_done(&s))
        return err_set(e, E_INVAL, "JSON ends too early, at byte %zu", len);
    if (facts != NULL)
        *facts = (struct json_facts){ s.has_nul, s.deepest };
    return 0;
}
