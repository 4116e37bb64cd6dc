/* SPDX-License-Identifier: MIT */
/* sources: monitor/ds/variants.c lib/string.c */
#include <stdio.h>
#include <string.h>

#include "monitor/ds/variants.h"
#include "tests/host/host.h"

static const struct ds_behaviour defaults;

static bool apply(struct ds_behaviour *behaviour, const struct variant *variant)
{
	char word[80];

	snprintf(word, sizeof(word), "%s=%s", variant->point, variant->choice);
	return variant_apply(behaviour, word);
}

static void every_variant_changes_one_point(void **state)
{
	struct variant variant;
	unsigned n;

	for (n = 0; variant_get(n, &variant); n++) {
		struct ds_behaviour behaviour = defaults;
		unsigned changed = 0;

		assert_true(apply(&behaviour, &variant));
		for (size_t at = 0; at < sizeof(behaviour); at += sizeof(unsigned))
			changed += memcmp((char *)&behaviour + at, (char *)&defaults + at,
					  sizeof(unsigned)) != 0;
		assert_int_equal(changed, !variant.is_default);
		assert_true(strlen(variant.meaning) > 10);
	}
	assert_true(n > 40);
}

static void each_point_has_one_default_and_another_choice(void **state)
{
	struct variant variant, next;

	for (unsigned n = 0; variant_get(n, &variant); n++)
		if (variant.is_default) {
			assert_true(variant_get(n + 1, &next));
			assert_string_equal(next.point, variant.point);
			assert_false(next.is_default);
		}
}

static void the_default_can_be_chosen_again(void **state)
{
	struct ds_behaviour behaviour = {0};

	assert_true(variant_apply(&behaviour, "full=write-on"));
	assert_int_equal(behaviour.full, DS_FULL_WRITE);
	assert_true(variant_apply(&behaviour, "full=stop"));
	assert_memory_equal(&behaviour, &defaults, sizeof(behaviour));
}

static void what_is_no_variant_changes_nothing(void **state)
{
	static const char *const words[] = {"",		  "=",		"full",
					    "full=",	  "full=stop ", "ful=stop",
					    "fulll=stop", "full=Stop",	"full=stop=stop"};
	struct ds_behaviour behaviour = {0};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_false(variant_apply(&behaviour, words[i]));
	assert_memory_equal(&behaviour, &defaults, sizeof(behaviour));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_variant_changes_one_point),
		cmocka_unit_test(each_point_has_one_default_and_another_choice),
		cmocka_unit_test(the_default_can_be_chosen_again),
		cmocka_unit_test(what_is_no_variant_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
