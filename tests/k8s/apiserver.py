# SPDX-License-Identifier: Apache-2.0
"""An API server of Kubernetes for tests: what a scheduler meets of it, and what it refuses.

Collections with list (pages), watch (resourceVersion, bookmarks, 410 Gone, time-outs), create, update with optimistic
locking (409), patches (merge, strategic for conditions, JSON; others 415), deletion with grace and preconditions; the
subresources binding (409 when bound, being deleted, another uid), eviction (429 by PodDisruptionBudgets) and status.
Kubelets are played: a bound pod is admitted if the node has what it asks for (else it fails with OutOf...), runs, and
ends. Faults are ordered by the tests: watches cut, history compacted, requests that fail before or after they are
carried out, a server that is away.
"""
import base64
import calendar
import copy
import json
import random
import ssl
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

NAMESPACED = {
    '/api/v1': ['pods', 'events', 'configmaps'],
    '/apis/batch/v1': ['jobs'],
    '/apis/coordination.k8s.io/v1': ['leases'],
    '/apis/policy/v1': ['poddisruptionbudgets'],
    '/apis/scheduling.k8s.io/v1alpha2': ['podgroups'],
    '/apis/scheduling.x-k8s.io/v1alpha1': ['podgroups'],
    '/apis/scheduling.volcano.sh/v1beta1': ['podgroups'],
    '/apis/jobset.x-k8s.io/v1alpha2': ['jobsets'],
}
GLOBAL = {'/api/v1': ['nodes', 'namespaces'], '/apis/scheduling.k8s.io/v1': ['priorityclasses']}
SUFFIX = {'m': 1, '': 1000, 'k': 10**6, 'M': 10**9, 'G': 10**12, 'Ki': 1000 << 10, 'Mi': 1000 << 20, 'Gi': 1000 << 30}


def quantity(text):
    """Thousandths."""
    text = str(text)
    for suffix in sorted(SUFFIX, key=len, reverse=True):
        if suffix and text.endswith(suffix):
            return int(float(text[:-len(suffix)]) * SUFFIX[suffix])
    return int(float(text) * 1000)


def now_text():
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())


def requests_of(pod):
    total = {}
    for container in pod['spec'].get('containers', []):
        resources = container.get('resources', {})
        for name, value in {**resources.get('limits', {}), **resources.get('requests', {})}.items():
            total[name] = total.get(name, 0) + quantity(value)
    return total


class Refused(Exception):
    def __init__(self, code, reason, message):
        super().__init__(message)
        self.body = {'kind': 'Status', 'apiVersion': 'v1', 'status': 'Failure', 'code': code, 'reason': reason,
                     'message': message}
        self.code = code


class Api:
    """The objects, and their history. All methods may be called by tests as well; they take the lock themselves."""

    def __init__(self, seed=1, grace=0.1, start=0.05, token=None):
        self.lock = threading.Condition(threading.RLock())
        self.random = random.Random(seed)
        self.version = 100
        self.objects = {}   # (collection, namespace, name) -> object
        self.history = []   # (version, collection, type, object)
        self.compacted = 0
        self.cuts = 0       # watches opened before this number of cuts end
        self.grace, self.start, self.token = grace, start, token
        self.away = False
        self.fault = None   # fn(method, path) -> None, 'before', 'after', 'lost'
        self.requests = []  # (method, path, status)
        self.rejected = []  # pods that kubelets did not admit
        self.times = {}     # uid -> when the kubelet does something next
        self.absent = set()  # collections that this server does not have
        self.collects = True  # whether pods of nodes that are gone are removed; a real cluster takes 40 s for it
        for name in ('default', 'kube-system'):
            self.create('/api/v1/namespaces', {'metadata': {'name': name}})
        self.stopped = False
        self.kubelet = threading.Thread(target=self.play, daemon=True)
        self.kubelet.start()

    # ---- objects ----

    def record(self, kind, collection, obj):
        self.version += 1
        obj['metadata']['resourceVersion'] = str(self.version)
        self.history.append((self.version, collection, kind, copy.deepcopy(obj)))
        self.lock.notify_all()

    def key(self, collection, namespace, name):
        return (collection, namespace or '', name)

    def find(self, collection, namespace, name):
        obj = self.objects.get(self.key(collection, namespace, name))
        if obj is None:
            raise Refused(404, 'NotFound', f'{collection.split("/")[-1]} "{name}" not found')
        return obj

    def create(self, collection, obj, namespace=None):
        with self.lock:
            obj = copy.deepcopy(obj)
            meta = obj.setdefault('metadata', {})
            if namespace:
                if ('/api/v1/namespaces', '', namespace) not in self.objects:
                    raise Refused(404, 'NotFound', f'namespaces "{namespace}" not found')
                meta['namespace'] = namespace
            if 'generateName' in meta and 'name' not in meta:
                meta['name'] = meta['generateName'] + uuid.uuid4().hex[:5]
            if not meta.get('name'):
                raise Refused(422, 'Invalid', 'metadata.name: Required value')
            key = self.key(collection, meta.get('namespace'), meta['name'])
            if key in self.objects:
                raise Refused(409, 'AlreadyExists', f'"{meta["name"]}" already exists')
            meta.update(uid=str(uuid.uuid4()), creationTimestamp=meta.get('creationTimestamp') or now_text())
            if collection.endswith('/pods'):
                obj.setdefault('status', {}).setdefault('phase', 'Pending')
                obj['spec'].setdefault('schedulerName', 'default-scheduler')
                self.set_priority(obj)
            if collection.endswith('/events') and obj['involvedObject'].get('namespace') != meta['namespace']:
                raise Refused(422, 'Invalid', 'involvedObject.namespace: does not match event.namespace')
            self.objects[key] = obj
            self.record('ADDED', collection, obj)
            return copy.deepcopy(obj)

    def set_priority(self, pod):
        name = pod['spec'].get('priorityClassName')
        if name:
            pod['spec']['priority'] = self.find('/apis/scheduling.k8s.io/v1/priorityclasses', None, name)['value']
        pod['spec'].setdefault('priority', 0)

    def changed(self, collection, obj):
        self.record('MODIFIED', collection, obj)

    def update(self, collection, namespace, name, new, status=False):
        with self.lock:
            old = self.find(collection, namespace, name)
            sent = new.get('metadata', {}).get('resourceVersion')
            if sent and sent != old['metadata']['resourceVersion']:
                raise Refused(409, 'Conflict', 'the object has been modified; please apply your changes to the latest version')
            new = copy.deepcopy(new)
            for field in ('uid', 'creationTimestamp', 'namespace', 'name', 'deletionTimestamp'):
                if field in old['metadata']:
                    new['metadata'][field] = old['metadata'][field]
            if status:
                new = {**copy.deepcopy(old), 'status': new.get('status', {})}
            self.objects[self.key(collection, namespace, name)] = new
            self.changed(collection, new)
            return copy.deepcopy(new)

    def delete(self, collection, namespace, name, options=None):
        with self.lock:
            obj = self.find(collection, namespace, name)
            uid = (options or {}).get('preconditions', {}).get('uid')
            if uid and uid != obj['metadata']['uid']:
                raise Refused(409, 'Conflict', 'the UID in the precondition does not match')
            if collection.endswith('/pods') and obj['spec'].get('nodeName') and \
                    (options or {}).get('gracePeriodSeconds') != 0 and obj['status']['phase'] in ('Pending', 'Running'):
                if 'deletionTimestamp' not in obj['metadata']:
                    obj['metadata']['deletionTimestamp'] = now_text()
                    obj['metadata']['deletionGracePeriodSeconds'] = 30
                    self.times[obj['metadata']['uid']] = time.monotonic() + self.grace
                    self.changed(collection, obj)
                return copy.deepcopy(obj)
            self.remove(collection, obj)
            return {'kind': 'Status', 'status': 'Success'}

    def remove(self, collection, obj):
        del self.objects[self.key(collection, obj['metadata'].get('namespace'), obj['metadata']['name'])]
        self.record('DELETED', collection, obj)

    # ---- patches ----

    def merge(self, old, patch):
        if not isinstance(patch, dict):
            return patch
        out = dict(old) if isinstance(old, dict) else {}
        for key, value in patch.items():
            if value is None:
                out.pop(key, None)
            else:
                out[key] = self.merge(out.get(key), value)
        return out

    def strategic(self, old, patch):
        """Lists of conditions are merged by their type; other lists are replaced."""
        if not isinstance(patch, dict):
            return patch
        out = dict(old) if isinstance(old, dict) else {}
        for key, value in patch.items():
            if value is None:
                out.pop(key, None)
            elif key == 'conditions':
                conditions = {c['type']: c for c in out.get(key, [])}
                for condition in value:
                    conditions[condition['type']] = {**conditions.get(condition['type'], {}), **condition}
                out[key] = list(conditions.values())
            else:
                out[key] = self.strategic(out.get(key), value)
        return out

    def json_patch(self, old, patch):
        out = copy.deepcopy(old)
        for step in patch:
            parts = [p.replace('~1', '/').replace('~0', '~') for p in step['path'].split('/')[1:]]
            at = out
            for part in parts[:-1]:
                at = at[int(part)] if isinstance(at, list) else at[part]
            if step['op'] == 'test':
                if at.get(parts[-1]) != step['value']:
                    raise Refused(422, 'Invalid', 'the test operation failed')
            elif step['op'] in ('add', 'replace'):
                at[parts[-1]] = step['value']
            elif step['op'] == 'remove':
                del at[parts[-1]]
        return out

    def patch(self, collection, namespace, name, kind, body, status=False):
        with self.lock:
            old = self.find(collection, namespace, name)
            if kind == 'application/strategic-merge-patch+json':
                new = self.strategic(old, body)
            elif kind == 'application/merge-patch+json':
                new = self.merge(old, body)
            elif kind == 'application/json-patch+json':
                new = self.json_patch(old, body)
            else:
                raise Refused(415, 'UnsupportedMediaType', f'the body of the request was in an unknown format: {kind}')
            if new['metadata'].get('uid') != old['metadata']['uid']:
                raise Refused(409, 'Conflict', 'Precondition failed: UID in precondition does not match')
            if status:
                new = {**copy.deepcopy(old), 'status': new.get('status', {})}
            else:
                new['status'] = copy.deepcopy(old.get('status', {}))
            self.objects[self.key(collection, namespace, name)] = new
            self.changed(collection, new)
            return copy.deepcopy(new)

    # ---- pods ----

    def bind(self, namespace, name, binding):
        with self.lock:
            pod = self.find('/api/v1/pods', namespace, name)
            uid = binding.get('metadata', {}).get('uid')
            target = binding.get('target', {})
            if target.get('kind') != 'Node' or not target.get('name'):
                raise Refused(422, 'Invalid', 'target.name: Required value')
            if uid and uid != pod['metadata']['uid']:
                raise Refused(409, 'Conflict', 'Precondition failed: UID in precondition does not match')
            if pod['metadata'].get('deletionTimestamp'):
                raise Refused(409, 'Conflict', f'pod {name} is being deleted, cannot be assigned to a host')
            if pod['spec'].get('nodeName'):
                raise Refused(409, 'Conflict', f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
            if pod['spec'].get('schedulingGates'):
                raise Refused(409, 'Conflict', f'pod {name} has non-empty .spec.schedulingGates')
            pod['spec']['nodeName'] = target['name']
            pod['metadata'].setdefault('annotations', {}).update(binding['metadata'].get('annotations') or {})
            conditions = [c for c in pod['status'].get('conditions', []) if c['type'] != 'PodScheduled']
            pod['status']['conditions'] = conditions + [{'type': 'PodScheduled', 'status': 'True'}]
            self.times[pod['metadata']['uid']] = time.monotonic() + self.start
            self.changed('/api/v1/pods', pod)
            return {'kind': 'Status', 'status': 'Success', 'code': 201}

    def budget_forbids(self, pod):
        for (collection, namespace, _), budget in self.objects.items():
            if not collection.endswith('/poddisruptionbudgets') or namespace != pod['metadata']['namespace']:
                continue
            wanted = budget['spec']['selector'].get('matchLabels', {})
            matching = [p for p in self.pods() if p['metadata']['namespace'] == namespace and
                        all(p['metadata'].get('labels', {}).get(k) == v for k, v in wanted.items())]
            if pod['metadata']['name'] not in [p['metadata']['name'] for p in matching]:
                continue
            healthy = [p for p in matching if p['status']['phase'] == 'Running' and
                       'deletionTimestamp' not in p['metadata']]
            if 'minAvailable' in budget['spec']:
                allowed = len(healthy) - budget['spec']['minAvailable']
            else:
                allowed = budget['spec']['maxUnavailable'] - (len(matching) - len(healthy))
            if allowed <= 0:
                return True
        return False

    def evict(self, namespace, name, eviction):
        with self.lock:
            pod = self.find('/api/v1/pods', namespace, name)
            if pod['status']['phase'] == 'Running' and 'deletionTimestamp' not in pod['metadata'] and \
                    self.budget_forbids(pod):
                raise Refused(429, 'TooManyRequests', "Cannot evict pod as it would violate the pod's disruption budget.")
            self.delete('/api/v1/pods', namespace, name, eviction.get('deleteOptions'))
            return {'kind': 'Status', 'status': 'Success', 'code': 201}

    def pods(self):
        with self.lock:
            return [o for (c, _, _), o in self.objects.items() if c == '/api/v1/pods']

    # ---- kubelets ----

    def admit(self, pod):
        """None, or what the node has too little of."""
        node = self.objects.get(('/api/v1/nodes', '', pod['spec']['nodeName']))
        if node is None:
            return None
        used = {}
        for other in self.pods():
            if other['spec'].get('nodeName') == pod['spec']['nodeName'] and other['metadata'].get('admitted') and \
                    other['status']['phase'] in ('Pending', 'Running'):
                for name, value in requests_of(other).items():
                    used[name] = used.get(name, 0) + value
        for name, value in requests_of(pod).items():
            if name.startswith('hivedscheduler'):
                continue
            if used.get(name, 0) + value > quantity(node['status']['allocatable'].get(name, 0)):
                return name
        return None

    def end(self, name, namespace='default', phase='Succeeded'):
        with self.lock:
            pod = self.find('/api/v1/pods', namespace, name)
            pod['status']['phase'] = phase
            self.changed('/api/v1/pods', pod)

    def tick(self):
        now = time.monotonic()
        for pod in self.pods():
            uid = pod['metadata']['uid']
            if not pod['spec'].get('nodeName'):
                continue
            node = self.objects.get(('/api/v1/nodes', '', pod['spec']['nodeName']))
            if node is None and not self.collects:
                continue
            if self.times.get(uid, now) > now and node is not None:
                continue
            if 'deletionTimestamp' in pod['metadata'] or node is None:
                self.remove('/api/v1/pods', pod)
            elif pod['status']['phase'] == 'Pending':
                lacks = self.admit(pod)
                if lacks:
                    self.rejected.append((pod['metadata']['name'], pod['spec']['nodeName'], lacks))
                    pod['status'].update(phase='Failed', reason='OutOf' + lacks)
                else:
                    pod['metadata']['admitted'] = True
                    pod['status']['phase'] = 'Running'
                    span = pod['metadata'].get('annotations', {}).get('test/runs')
                    self.times[uid] = now + float(span) if span else float('inf')
                self.changed('/api/v1/pods', pod)
            elif pod['status']['phase'] == 'Running' and 'test/runs' in pod['metadata'].get('annotations', {}):
                pod['status']['phase'] = 'Succeeded'
                self.changed('/api/v1/pods', pod)

    def play(self):
        while not self.stopped:
            with self.lock:
                self.tick()
            time.sleep(0.01)

    # ---- faults ----

    def compact(self):
        """What happened before now is forgotten."""
        with self.lock:
            self.compacted = self.version
            self.history = []

    def cut(self):
        with self.lock:
            self.cuts += 1
            self.lock.notify_all()


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def setup(self):
        super().setup()
        self.api = self.server.api

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.api.requests.append((self.command, self.path, code))

    def route(self, path):
        """(collection, namespace, name, subresource)"""
        for root in sorted(set(NAMESPACED) | set(GLOBAL), key=len, reverse=True):
            if not path.startswith(root + '/'):
                continue
            parts = path[len(root) + 1:].split('/')
            namespace = None
            if parts[0] == 'namespaces' and len(parts) > 2:
                namespace, parts = parts[1], parts[2:]
            if parts[0] not in NAMESPACED.get(root, []) + GLOBAL.get(root, []):
                break
            collection = root + '/' + parts[0]
            if collection in self.api.absent:
                break
            return collection, namespace, *(parts[1:] + [None, None])[:2]
        raise Refused(404, 'NotFound', 'the server could not find the requested resource')

    def handle_one(self):
        size = int(self.headers.get('Content-Length') or 0)
        data = self.rfile.read(size) if size else b''
        url = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(url.query).items()}
        api = self.api
        fault = api.fault(self.command, self.path) if api.fault else None
        if api.away or fault == 'before':
            self.close_connection = True
            return
        try:
            if api.token and self.headers.get('Authorization') != 'Bearer ' + api.token:
                raise Refused(401, 'Unauthorized', 'Unauthorized')
            if fault == 'refused':
                raise Refused(503, 'ServiceUnavailable', 'the server is overloaded')
            collection, namespace, name, sub = self.route(url.path)
            if self.command == 'GET' and not name and query.get('watch') in ('1', 'true'):
                self.watch(collection, query)
                return
            code, body = self.carry_out(collection, namespace, name, sub, query, json.loads(data) if data else None)
        except Refused as refused:
            code, body = refused.code, refused.body
        if fault == 'lost':  # it was carried out, and nobody hears of it
            self.close_connection = True
            return
        self.answer(code, body)

    def carry_out(self, collection, namespace, name, sub, query, body):
        api, verb = self.api, self.command
        if verb == 'GET':
            return (200, copy.deepcopy(api.find(collection, namespace, name))) if name else self.list(collection, query)
        if verb == 'POST' and sub == 'binding':
            return 201, api.bind(namespace, name, body)
        if verb == 'POST' and sub == 'eviction':
            return 201, api.evict(namespace, name, body)
        if verb == 'POST' and not name:
            return 201, api.create(collection, body, namespace)
        if verb == 'PUT':
            return 200, api.update(collection, namespace, name, body, sub == 'status')
        if verb == 'PATCH':
            return 200, api.patch(collection, namespace, name, self.headers.get('Content-Type'), body, sub == 'status')
        if verb == 'DELETE':
            return 200, api.delete(collection, namespace, name, body)
        raise Refused(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource')

    def list(self, collection, query):
        api = self.api
        with api.lock:
            keys = sorted(k for k in api.objects if k[0] == collection)
            limit, start, version = int(query.get('limit', 0)), 0, api.version
            if 'continue' in query:
                version, after = json.loads(base64.urlsafe_b64decode(query['continue']))
                if version < api.compacted:
                    raise Refused(410, 'Expired', 'The provided continue parameter is too old')
                start = len([k for k in keys if list(k) <= after])
            page = keys[start:start + limit] if limit else keys[start:]
            meta = {'resourceVersion': str(version)}
            if limit and start + limit < len(keys):
                meta['continue'] = base64.urlsafe_b64encode(json.dumps([version, list(page[-1])]).encode()).decode()
            return 200, {'kind': 'List', 'apiVersion': 'v1', 'metadata': meta,
                         'items': [copy.deepcopy(api.objects[k]) for k in page]}

    def chunk(self, event):
        data = (json.dumps(event) + '\n').encode()
        self.wfile.write(b'%x\r\n%s\r\n' % (len(data), data))
        self.wfile.flush()

    def watch(self, collection, query):
        api = self.api
        seen = int(query.get('resourceVersion') or 0)
        ends = time.monotonic() + float(query.get('timeoutSeconds', 300))
        cuts, bookmark = api.cuts, time.monotonic() + 1
        if seen < api.compacted and api.random.random() < 0.5:
            raise Refused(410, 'Expired', f'too old resource version: {seen} ({api.compacted})')
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        at = 0
        history = None
        while time.monotonic() < ends and not api.stopped:
            with api.lock:
                if cuts != api.cuts or api.away:
                    self.close_connection = True
                    return
                if seen < api.compacted:
                    self.chunk({'type': 'ERROR', 'object': Refused(410, 'Expired', f'too old: {seen}').body})
                    break
                if history is not api.history:
                    history, at = api.history, 0
                events = [e for e in history[at:] if e[0] > seen and e[1] == collection]
                at = len(history)
                if not events:
                    api.lock.wait(0.2)
            for version, _, kind, obj in events:
                self.chunk({'type': kind, 'object': obj})
                seen = version
            if query.get('allowWatchBookmarks') == 'true' and time.monotonic() > bookmark:
                bookmark = time.monotonic() + 1
                with api.lock:
                    version = api.version if at == len(api.history) else seen
                seen = max(seen, version)
                self.chunk({'type': 'BOOKMARK', 'object': {'metadata': {'resourceVersion': str(seen)}}})
        self.wfile.write(b'0\r\n\r\n')

    def guarded(self):
        try:
            self.handle_one()
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = guarded


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, api, tls=None):
        super().__init__(('127.0.0.1', 0), Handler)
        self.api = api
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f'{"https" if tls else "http"}://127.0.0.1:{self.server_address[1]}'
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def stop(self):
        self.api.stopped = True
        self.shutdown()
        self.server_close()


def age(text):
    return time.time() - calendar.timegm(time.strptime(text, '%Y-%m-%dT%H:%M:%SZ'))
