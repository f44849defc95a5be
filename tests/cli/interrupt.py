# SPDX-License-Identifier: Apache-2.0
"""interrupt.py COMMAND: runs it on a terminal of its own, presses Ctrl-C when it says that it waits for that, exits as it does."""
import os
import pty
import select
import sys
import time

pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
text, end, pressed = b"", time.time() + 90, False
while time.time() < end:
    if select.select([fd], [], [], 0.2)[0]:
        try:
            text += os.read(fd, 65536)
        except OSError:
            break
    if b"a browser at" in text and not pressed:
        pressed = True
        time.sleep(0.5)
        os.write(fd, b"\x03")
done, end = 0, time.time() + 30 # its terminal is closed a moment before it is gone
while not done and time.time() < end:
    done, status = os.waitpid(pid, os.WNOHANG)
    time.sleep(0 if done else 0.05)
if not done:
    print(text.decode(errors="replace")[-2000:])
    os.kill(pid, 9)
    sys.exit("it did not end")
sys.exit(0 if pressed and b"Stopped" in text else text.decode(errors="replace")[-2000:])
