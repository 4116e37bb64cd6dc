# SPDX-License-Identifier: MIT
# A labgrid test: cycles the machine's power and passes on the verdict of tools/judge on its console. The log and JUnit XML, a
# test case for each test of Spoor and a property for each unit, are in the directory that pytest made for it. A machine
# without BTS passes only where its own command line says what the run is for: units=pebs,pt.
import pathlib
import subprocess

import pexpect

JUDGE = pathlib.Path(__file__).resolve().parent.parent / "judge"


def test_spoor(target, tmp_path):
    console = target.get_driver("ConsoleProtocol")
    power = target.get_driver("PowerProtocol")
    judge = subprocess.Popen(
        [JUDGE, "--keep", tmp_path / "spoor.log", "--junit", tmp_path / "spoor.xml", "-"],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    power.cycle()
    while judge.poll() is None:
        try:
            judge.stdin.write(console.read(size=4096, timeout=1))
            judge.stdin.flush()
        except pexpect.TIMEOUT:
            continue
        except BrokenPipeError:
            break
    judge.stdin.close()
    verdict = judge.stderr.read().decode()
    assert judge.wait() == 0, verdict
