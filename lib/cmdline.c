// SPDX-License-Identifier: MIT
#include "lib/cmdline.h"

#include "lib/format.h"
#include "lib/string.h"

#define WORD_SIZE 1024 /* the longest word, NUL included: the variants of virtual silicon */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_blanks(const char *s)
{
	while (is_blank(*s))
		s++;
	return s;
}

/*
 * Takes the quotes off the word at `*line` and moves `*line` past it. NULL, or what is wrong
 * with the word; `word` then holds as much of it as was read, and `*line` is at the next
 * blank, whether a quote was open or not.
 */
static const char *take_word(const char **line, char word[WORD_SIZE])
{
	const char *s = *line;
	bool quoted = false;
	size_t length = 0;

	while (**line && !is_blank(**line))
		(*line)++;
	for (; *s && (quoted || !is_blank(*s)); s++) {
		if (*s == '"') {
			quoted = !quoted;
			continue;
		}
		if (*s == '\\' && s[1] && strchr("\\\"'", s[1]))
			s++;
		word[length++] = *s;
		if (length == WORD_SIZE) {
			word[32] = '\0';
			return "is too long";
		}
	}
	word[length] = '\0';
	if (quoted)
		return "has an open quote";
	*line = s;
	return NULL;
}

static unsigned digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return (unsigned)(c - 'A') + 10;
	return 16;
}

bool parse_number(const char *text, size_t length, uint64_t *value)
{
	unsigned base = 10;
	uint64_t result = 0;

	if (length > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		base = 16;
		text += 2;
		length -= 2;
	}
	if (!length)
		return false;
	for (; length; text++, length--) {
		unsigned digit = digit_value(*text);

		if (digit >= base || __builtin_mul_overflow(result, base, &result) ||
		    __builtin_add_overflow(result, digit, &result))
			return false;
	}
	*value = result;
	return true;
}

const char *cmdline_skip_file_name(const char *line)
{
	const char *s;

	line = skip_blanks(line);
	for (s = line; *s && !is_blank(*s) && *s != '='; s++) {
		if (*s != '/' && *s != '.')
			continue;
		while (*s && !is_blank(*s))
			s++;
		return skip_blanks(s);
	}
	return line;
}

/* A list of names after a sentence, each with a blank before it; stops where `error` is full. */
static void append(char *error, size_t size, const char *name)
{
	size_t length = strnlen(error, size);

	if (length < size)
		format(error + length, size - length, " %s", name);
}

static bool fail(char *error, size_t size, const char *word, const char *what)
{
	format(error, size, "\"%s\" %s", word, what);
	return false;
}

static bool apply_flag(const struct option *option, const char *value)
{
	if (value && strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return false;
	*(bool *)option->target = !value || *value == '1';
	return true;
}

static bool apply_number(const struct option *option, const char *value)
{
	uint64_t number;

	if (!value || !parse_number(value, strlen(value), &number) || number < option->min ||
	    number > option->max)
		return false;
	*(uint64_t *)option->target = number;
	return true;
}

static bool apply_choice(const struct option *option, const char *value)
{
	for (int i = 0; value && option->choices[i]; i++) {
		if (strcmp(value, option->choices[i]) == 0) {
			*(int *)option->target = i;
			return true;
		}
	}
	return false;
}

static bool apply_text(const struct option *option, const char *value)
{
	if (!value || strlen(value) >= option->size)
		return false;
	memcpy(option->target, value, strlen(value) + 1);
	return true;
}

static bool apply(const struct option *option, const char *word, const char *value, char *error,
		  size_t size)
{
	switch (option->kind) {
	case OPTION_FLAG:
		return apply_flag(option, value) ||
		       fail(error, size, word, "takes no value, or 0 or 1");
	case OPTION_NUMBER:
		if (apply_number(option, value))
			return true;
		format(error, size, "\"%s\" needs a number from %lu to %lu", word,
		       (unsigned long)option->min, (unsigned long)option->max);
		return false;
	case OPTION_CHOICE:
		if (apply_choice(option, value))
			return true;
		fail(error, size, word, "needs one of:");
		for (int i = 0; option->choices[i]; i++)
			append(error, size, option->choices[i]);
		return false;
	case OPTION_TEXT:
		if (apply_text(option, value))
			return true;
		format(error, size, "\"%s\" needs a value of at most %zu characters", word,
		       option->size - 1);
		return false;
	}
	return false;
}

static const struct option *find_option(const struct option *options, size_t count,
					const char *name, size_t length)
{
	for (size_t i = 0; i < count; i++) {
		if (strlen(options[i].name) == length &&
		    strncmp(options[i].name, name, length) == 0)
			return &options[i];
	}
	return NULL;
}

/* The word at `*line`, which moves past it. */
static bool apply_word(const char **line, const struct option *options, size_t count, char *error,
		       size_t size)
{
	char word[WORD_SIZE];
	const char *fault = take_word(line, word);
	const char *equals = strchr(word, '=');
	size_t length = equals ? (size_t)(equals - word) : strlen(word);
	const struct option *option = find_option(options, count, word, length);

	if (fault)
		return fail(error, size, word, fault);
	if (option)
		return apply(option, word, equals ? equals + 1 : NULL, error, size);
	fail(error, size, word, "is unknown; the words are:");
	for (size_t i = 0; i < count; i++)
		append(error, size, options[i].name);
	return false;
}

bool cmdline_parse(const char *line, const struct option *options, size_t count, char *error,
		   size_t error_size)
{
	bool valid = true;

	for (line = skip_blanks(line); *line; line = skip_blanks(line))
		valid &= apply_word(&line, options, count, error, valid ? error_size : 0);
	return valid;
}
