# SPDX-License-Identifier: Apache-2.0
"""A port of loopback for a program that has to be told one; as a program, prints it.

The kernel gives a port that was let go to the next who asks for any. So it is left as the end of a connection, which keeps
it from those for a minute; whoever binds it by number, as servers do, gets it (SO_REUSEADDR).
"""
import socket


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()  # the side that closes first is the one that waits: the port's
        return port


if __name__ == "__main__":
    print(free_port())
