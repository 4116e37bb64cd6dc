# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# recorded_logs DIRECTORY: makes it, and puts every log there, those of logs/ and those that edits.txt makes of them. Fails where an edit
# changes nothing.
recorded_logs()
{
	local from log origin edit
	from=$(dirname "${BASH_SOURCE[0]}")
	mkdir -p "$1" && cp "$from"/logs/*.log "$1" || return
	while read -r log origin edit; do
		[[ $log != '#'* ]] || continue
		sed "$edit" "$from/logs/$origin.log" >"$1/$log.log" && ! cmp -s "$from/logs/$origin.log" "$1/$log.log" && continue
		echo "# edits.txt: $log is $origin"
		return 1
	done <"$from/edits.txt"
}
