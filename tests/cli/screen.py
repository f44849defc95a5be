#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""screen.py ROWS COLUMNS PATTERN COMMAND... - runs COMMAND on a terminal of that size until PATTERN is on it, types q, and
prints what was on the screen then. Exit status: the command's; 124 where PATTERN never came. TERM is linux."""
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time

CONTROL = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z@`])|\x1b[()][A-Z0-9]|\x1b[=>78MDE]|\x1b\][^\x07]*\x07|\x0e|\x0f|\x07")


class Screen:
    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0

    def feed(self, text):
        at = 0
        while at < len(text):
            found = CONTROL.match(text, at)
            if found:
                if found.group(3) and not found.group(1):
                    self.control(found.group(3), [int(n or 0) for n in found.group(2).split(";")])
                at = found.end()
                continue
            self.put(text[at])
            at += 1

    def put(self, sign):
        if sign == "\r":
            self.column = 0
        elif sign == "\n":
            self.row = min(self.row + 1, self.rows - 1)
        elif sign == "\b":
            self.column = max(self.column - 1, 0)
        else:
            if self.column >= self.columns:  # as a terminal does with what is too long
                self.row, self.column = min(self.row + 1, self.rows - 1), 0
            self.cells[self.row][self.column] = sign
            self.column += 1

    def control(self, kind, numbers):
        n = max(numbers[0], 1)
        if kind in "Hf":
            self.row, self.column = n - 1, max(numbers[1] if len(numbers) > 1 else 1, 1) - 1
        elif kind == "d":
            self.row = n - 1
        elif kind in "G`":
            self.column = n - 1
        elif kind in "AB":
            self.row = max(0, min(self.rows - 1, self.row + (n if kind == "B" else -n)))
        elif kind in "CD":
            self.column = max(0, min(self.columns - 1, self.column + (n if kind == "C" else -n)))
        elif kind == "J":
            self.erase(self.row * self.columns + self.column if numbers[0] == 0 else 0, self.rows * self.columns)
        elif kind == "K":
            line = self.row * self.columns
            self.erase(line + (self.column if numbers[0] == 0 else 0), line + (self.columns if numbers[0] != 1 else self.column + 1))
        elif kind == "X":
            self.erase(self.row * self.columns + self.column, self.row * self.columns + min(self.column + n, self.columns))
        elif kind not in "mhlr":
            raise RuntimeError("a sequence this terminal does not know: %s" % kind)

    def erase(self, first, end):
        for i in range(first, end):
            self.cells[i // self.columns][i % self.columns] = " "

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.cells)


def main():
    rows, columns, pattern = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.environ["TERM"] = "linux"
        os.execvp(sys.argv[4], sys.argv[4:])
    screen, raw, end, shown = Screen(rows, columns), b"", time.monotonic() + 60, None
    while time.monotonic() < end:
        try:
            if not select.select([fd], [], [], 0.2)[0]:
                continue
            raw += os.read(fd, 65536)
        except OSError:
            break
        try:
            text, raw = raw.decode(), b""
        except UnicodeDecodeError:
            continue  # in the middle of a sign
        screen.feed(text)
        if shown is None and re.search(pattern, screen.text(), re.M):
            shown = screen.text()
            os.write(fd, b"q")
    else:
        os.kill(pid, 9)
    print(shown if shown is not None else screen.text())
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return 124 if shown is None else status


if __name__ == "__main__":
    sys.exit(main())
