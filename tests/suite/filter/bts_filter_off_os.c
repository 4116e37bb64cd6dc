// SPDX-License-Identifier: MIT
#include "tests/lib/visits.h"

TEST(bts_filter_off_os, .group = "P", .ids = "P1", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "with BTS_OFF_OS all branches within CPL 3 are recorded, and none within CPL 0",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	struct visits visits;
	struct rig rig;

	rig_open(&rig, VISITS_SLOTS);
	visits_open();
	visits = visits_trace(&rig, rig_all() | ds_configuration->off_os);
	EXPECT_EQ(visits.user, VISITS_BRANCHES);
	EXPECT_EQ(visits.kernel, 0);
	EXPECT_EQ(visits.wrong, 0);
	EXPECT_OR_ERRATUM(visits.wrong_from == 0, "AR62");
	EXPECT(visits.to_user <= VISITS && visits.to_kernel <= VISITS);
	test_observe("off_os_transitions", "to_user:%zu,to_kernel:%zu of %d", visits.to_user,
		     visits.to_kernel, VISITS);
	visits_close();
	rig_close(&rig);
}
