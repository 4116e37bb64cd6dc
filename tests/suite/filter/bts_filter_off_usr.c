// SPDX-License-Identifier: MIT
#include "tests/lib/visits.h"

TEST(bts_filter_off_usr, .group = "P", .ids = "P2", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "with BTS_OFF_USR all branches within CPL 0 are recorded, and none within CPL 3",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	struct visits all, visits;
	struct rig rig;

	rig_open(&rig, VISITS_SLOTS);
	visits_open();
	all = visits_trace(&rig, rig_all());
	visits = visits_trace(&rig, rig_all() | ds_configuration->off_usr);
	EXPECT_EQ(all.user, VISITS_BRANCHES);
	EXPECT_EQ(all.to_user, VISITS);
	EXPECT_EQ(all.wrong + all.wrong_from, 0);
	EXPECT_EQ(visits.user, 0);
	EXPECT_EQ(visits.kernel, all.kernel);
	EXPECT_EQ(visits.kernel_sum, all.kernel_sum);
	EXPECT_EQ(visits.wrong, 0);
	EXPECT_OR_ERRATUM(visits.wrong_from == 0, "AR62");
	EXPECT(visits.to_user <= VISITS && visits.to_kernel <= VISITS);
	test_observe("off_usr_transitions", "to_user:%zu,to_kernel:%zu of %d", visits.to_user,
		     visits.to_kernel, VISITS);
	visits_close();
	rig_close(&rig);
}
