# SPDX-License-Identifier: Apache-2.0
"""A controller that does what a test tells it: speaks docs/protocol.md to real agents.

It keeps every report, acknowledges them unless told not to, echoes beats unless told not to, and checks that the numbers
of an incarnation are seen in order and that a number never comes with two contents.
"""
import base64
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time


class Controller:
    def __init__(self, lease_ms=120000, beat_ms=200, behind=0, hold=False):
        self.hold = hold
        self.lease_ms, self.beat_ms, self.behind = lease_ms, beat_ms, behind
        self.lock = threading.Condition()
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.url = 'http://127.0.0.1:%d' % self.listener.getsockname()[1]
        self.conn = None
        self.reports, self.answers, self.hellos, self.beats, self.progress = [], {}, [], [], []
        self.seen = {}  # incarnation -> {seq: report}
        self.ack, self.echo, self.keep, self.faults = True, True, None, []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        try:
            data = b''
            while b'\r\n\r\n' not in data:
                part = conn.recv(4096)
                if not part:
                    return
                data += part
            head, data = data.split(b'\r\n\r\n', 1)
            assert head.startswith(b'GET /agent/v1 HTTP/1.1') and b'Upgrade: muster-agent' in head, head
            conn.sendall(b'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: muster-agent\r\n\r\n')
            while True:
                while len(data) < 4 or len(data) < 4 + struct.unpack('>I', data[:4])[0]:
                    part = conn.recv(1 << 20)
                    if not part:
                        return
                    data += part
                size = struct.unpack('>I', data[:4])[0]
                frame, data = json.loads(data[4:4 + size]), data[4 + size:]
                self.take(conn, frame)
        except OSError:
            pass
        finally:
            with self.lock:
                if self.conn is conn:
                    self.conn = None
                conn.close()  # not before: others use what self.conn is
                self.lock.notify_all()

    def now(self):
        """Its own clock, which may be behind that of the node."""
        return int((time.time() - self.behind) * 1e6)

    def take(self, conn, frame):
        with self.lock:
            kind = frame['t']
            if kind == 'hello':
                self.conn = conn
                self.hellos.append(frame)
                self.agent = frame['agent']
                seen = self.seen.setdefault(self.agent, {})
                self.send(t='welcome', cluster='test', acked=max(seen, default=0) if self.ack else self.acked(),
                          lease_ms=self.lease_ms, beat_ms=self.beat_ms, now=self.now(), **({'hold': True} if self.hold else {}))
                if self.keep is not None:
                    self.send(t='keep', tasks=self.keep(frame) if callable(self.keep) else self.keep)
            elif kind == 'report':
                seen, seq = self.seen[self.agent], frame['seq']
                if seq in seen and seen[seq] != frame:
                    self.faults.append('report %d came twice, differently: %r %r' % (seq, seen[seq], frame))
                # Whoever opens the journal leaves numbers out.
                if seq not in seen and seq != max(seen, default=0) + 1 and seq < max(seen, default=0) + 65536:
                    self.faults.append('report %d after %d' % (seq, max(seen, default=0)))
                if seq not in seen:
                    seen[seq] = frame
                    if frame.get('ran'):  # it says that it ran, too
                        self.reports.append({k: frame[k] for k in ('t', 'seq', 'job', 'attempt', 'rank', 'started')} |
                                            {'state': 'running', 'at': frame['started']})
                    self.reports.append(frame)
                if self.ack:
                    self.send(t='ack', seq=seq)
            elif kind == 'progress':
                self.progress.append(frame['progress'])
            elif kind == 'beat':
                self.progress.append(frame.get('progress', []))
                self.beats.append(frame)
                if self.echo:
                    self.send(t='beat', n=frame['n'], now=self.now())
            elif kind == 'answer':
                self.answers.setdefault(frame['id'], []).append(frame)
            self.lock.notify_all()

    def acked(self):
        return getattr(self, 'acked_seq', 0)

    def send(self, **frame):
        data = json.dumps(frame).encode()
        with self.lock:
            if self.conn:
                self.conn.sendall(struct.pack('>I', len(data)) + data)

    def cut(self):
        """Breaks the connection; the agent dials again."""
        with self.lock:
            if self.conn:
                try:
                    self.conn.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # the agent was quicker

    def wait(self, what, test, timeout=40):
        end = time.time() + timeout
        with self.lock:
            while True:
                got = test()
                if got:
                    return got
                if time.time() > end:
                    raise AssertionError('timed out: %s; %d hellos, faults %r, reports %r' % (what, len(self.hellos), self.faults, self.reports[-6:]))
                self.lock.wait(0.05)

    def connected(self, count=1):
        return self.wait('hello %d' % count, lambda: len(self.hellos) >= count and self.conn is not None)

    def launch(self, job, run=None, args=None, attempt=0, rank=0, go=True, gpus=(0,), place=None, spec=None, **more):
        spec = dict(spec or {})
        if run is not None:
            spec['run'] = run
        if args is not None:
            spec['args'] = args
        order = dict(t='order', do='launch', job=job, attempt=attempt, rank=rank, go=go, user='root', uid=os.getuid(),
                     gid=os.getgid(), spec=spec, vc='default', cluster='test', port=29500, end=0,
                     place=place or [{'node': 'n1', 'address': '127.0.0.1', 'gpus': list(gpus)}])
        order.update(more)
        self.send(**order)

    def order(self, do, job, attempt=0, **more):
        self.send(t='order', do=do, job=job, attempt=attempt, **more)

    def report(self, job, state, attempt=0, timeout=40, **match):
        def find():
            for r in self.reports:
                if r.get('job') == job and r.get('attempt') == attempt and r.get('state') == state and \
                        all(r.get(k) == v for k, v in match.items()):
                    return r
        return self.wait('job %s %s %r' % (job, state, match), find, timeout)

    def ask(self, number, do, timeout=40, done=True, **more):
        self.send(t='ask', id=number, do=do, **more)
        if done:
            self.wait('answer %d' % number, lambda: any(not a.get('more') for a in self.answers.get(number, [])), timeout)
        return self.answers.get(number, [])

    def text(self, number, stream=None):
        return b''.join(base64.b64decode(a.get('data', '')) for a in self.answers.get(number, [])
                        if stream in (None, a.get('stream')))

    def log(self, number, job, attempt=0, rank=0, **more):
        self.ask(number, 'log', job=job, attempt=attempt, rank=rank, **more)
        return self.text(number).decode(errors='replace')

    def close(self):
        self.listener.close()
        self.cut()


class Agent:
    def __init__(self, program, controller, state, *flags, node='n1', fake='8:H100'):
        self.command = [program, '--url', controller.url, '--node', node, '--state', state] + \
                       (['--fake', fake] if fake else []) + ['--allow-root', '--log-level', os.environ.get('AGENT_LOG', 'err')] + list(flags)
        self.state = state
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL)

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        return self.process.wait(20)
