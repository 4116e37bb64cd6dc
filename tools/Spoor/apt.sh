# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# How this machine's apt reaches Debian's archive, for a root that is made here: to be read by a program of tools/.

# sources CODENAME: lines for a sources.list, from those of this machine's Debian
sources()
{
	# shellcheck disable=SC2016 # apt expands these
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
		sed -nE "s/^([^ ]+) [a-z]+(-updates|-security)? main$/deb \\1 $1\\2 main/p" | sort -u
}

# settings: lines for an apt.conf, those of proxies, certificates and repetition
settings()
{
	apt-config dump | grep -E '^Acquire::(http|https|ftp|Check-[A-Za-z-]*|Retries)(::[^ ]*)? ".+"' | grep -v Auto-Detect
}

# keys FILE: the keys of this machine's archives
keys()
{
	cat /usr/share/keyrings/debian-archive-keyring.gpg /etc/apt/trusted.gpg.d/*.gpg >"$1" 2>/dev/null
}
