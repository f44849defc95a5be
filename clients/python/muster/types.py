# SPDX-License-Identifier: Apache-2.0
"""Objects of the REST API, version v1. Written by generate_types.py from api/openapi.json; do not edit."""
import sys
from typing import Any, Dict, List, Optional, Union

if sys.version_info >= (3, 11):
    from typing import Literal, NotRequired, TypedDict
else:
    from typing import Literal, TypedDict

    class _Optional(dict):
        """Stands for NotRequired, which has no effect at run time."""

        def __getitem__(self, item: Any) -> Any:
            return item

    NotRequired = _Optional()


class ProblemErrorsItem(TypedDict):
    path: str
    message: str


class Problem(TypedDict):
    type: str
    title: str
    status: int
    detail: str
    code: str
    hints: List[str]
    errors: List["ProblemErrorsItem"]


class JobArray(TypedDict):
    id: int
    index: int


class JobReason(TypedDict):
    code: str
    message: str
    since: Optional[str]


class JobEta(TypedDict):
    at: Optional[str]
    low: Optional[str]
    high: Optional[str]
    basis: str


class JobPlacementItem(TypedDict):
    node: str
    gpus: List[int]


class JobProgress(TypedDict):
    """How far the job says it is: what a program of a user says of itself."""
    state: Literal["moving", "stalled"]
    source: Literal["socket", "output", "runtime", "emulated"]
    step: Optional[float]
    total: Optional[float]
    epoch: Optional[float]
    rate: Optional[float]
    loss: Optional[float]
    end: Optional[str]
    heard: Optional[str]


class JobPredicted(TypedDict):
    run_seconds: Optional[float]
    memory_mib: Optional[float]
    utilisation: Optional[float]
    utilisation_dev: Optional[float]
    gpus_pay: Optional[float]


class JobUsed(TypedDict):
    utilisation: Optional[float]
    utilisation_dev: Optional[float]
    memory_mib: Optional[float]


class JobSize(TypedDict):
    min: int
    max: int
    set: Optional[int]
    waits: bool


class JobPromise(TypedDict):
    state: Literal["none", "promised", "declined", "broken"]
    deadline: str
    offer: Optional[str]
    cause: Optional[str]
    message: str


class Job(TypedDict):
    """A job. In lists without apiVersion, kind, spec, uid, gid and held; with ?fields= only those."""
    apiVersion: Literal["v1"]
    kind: Literal["Job"]
    id: int
    name: Optional[str]
    user: str
    vc: str
    priority: int
    priority_class: Literal["oppo", "low", "normal", "high", "urgent"]
    state: Literal["PENDING", "STARTING", "RUNNING", "SUSPENDED", "COMPLETING", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"]
    state_letters: Literal["PD", "ST", "R", "S", "CG", "CD", "F", "CA", "TO", "PR", "NF", "OOM", "DL"]
    array: Optional["JobArray"]
    gpus: int
    gpu_share: int
    gpu_type: Optional[str]
    nodes: int
    submit_time: Optional[str]
    eligible_time: Optional[str]
    start_time: Optional[str]
    end_time: Optional[str]
    elapsed_seconds: int
    limit_seconds: int
    gpu_seconds: int
    reason: Optional["JobReason"]
    eta: Optional["JobEta"]
    placement: List["JobPlacementItem"]
    nodelist: str
    kept_until: Optional[str]
    attempt: int
    preemptions: int
    failures: int
    exit_code: Optional[int]
    signal: Optional[int]
    end_text: Optional[str]
    last_checkpoint_time: Optional[str]
    progress: Optional["JobProgress"]
    licenses: NotRequired[Dict[str, int]]
    version: int
    spec: Optional[Dict[str, Any]]
    uid: int
    gid: int
    held: bool
    predicted: Optional["JobPredicted"]
    used: Optional["JobUsed"]
    size: NotRequired[Optional["JobSize"]]
    promise: NotRequired["JobPromise"]


class JobItemArray(TypedDict):
    id: int
    index: int
    indices: NotRequired[str]
    count: NotRequired[int]


class JobItem(TypedDict):
    id: int
    name: NotRequired[Optional[str]]
    user: NotRequired[str]
    vc: NotRequired[str]
    priority: NotRequired[int]
    priority_class: NotRequired[Literal["oppo", "low", "normal", "high", "urgent"]]
    state: NotRequired[Literal["PENDING", "STARTING", "RUNNING", "SUSPENDED", "COMPLETING", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"]]
    state_letters: NotRequired[Literal["PD", "ST", "R", "S", "CG", "CD", "F", "CA", "TO", "PR", "NF", "OOM", "DL"]]
    array: NotRequired[Optional["JobItemArray"]]
    gpus: NotRequired[int]
    gpu_share: NotRequired[int]
    gpu_type: NotRequired[Optional[str]]
    nodes: NotRequired[int]
    submit_time: NotRequired[Optional[str]]
    eligible_time: NotRequired[Optional[str]]
    start_time: NotRequired[Optional[str]]
    end_time: NotRequired[Optional[str]]
    elapsed_seconds: NotRequired[int]
    limit_seconds: NotRequired[int]
    gpu_seconds: NotRequired[int]
    reason: NotRequired[Optional["JobReason"]]
    eta: NotRequired[Optional["JobEta"]]
    placement: NotRequired[List["JobPlacementItem"]]
    nodelist: NotRequired[str]
    kept_until: NotRequired[Optional[str]]
    attempt: NotRequired[int]
    preemptions: NotRequired[int]
    failures: NotRequired[int]
    exit_code: NotRequired[Optional[int]]
    signal: NotRequired[Optional[int]]
    end_text: NotRequired[Optional[str]]
    last_checkpoint_time: NotRequired[Optional[str]]
    progress: NotRequired[Optional["JobProgress"]]
    licenses: NotRequired[Dict[str, int]]
    version: NotRequired[int]


class JobList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["JobList"]
    items: List["JobItem"]
    next: Optional[str]


class History(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["JobList"]
    items: List[Dict[str, Any]]
    next: Optional[str]


class TaskRolesItem(TypedDict):
    role: str
    index: int
    gpus: int
    exit_code: Optional[int]
    signal: Optional[int]


class Task(TypedDict):
    rank: int
    node: str
    gpus: List[int]
    state: Literal["preparing", "ready", "running", "suspended", "stopping", "exited", "refused"]
    exit_code: Optional[int]
    signal: Optional[int]
    oom: bool
    cause: Optional[str]
    start_time: Optional[str]
    end_time: Optional[str]
    roles: List["TaskRolesItem"]


class TaskList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["TaskList"]
    items: List["Task"]
    next: Optional[str]


class Attempt(TypedDict):
    number: int
    state: Literal["PENDING", "STARTING", "RUNNING", "SUSPENDED", "COMPLETING", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"]
    placed_time: Optional[str]
    start_time: Optional[str]
    end_time: Optional[str]
    ran_seconds: float
    exit_code: Optional[int]
    signal: Optional[int]
    stop_kind: Optional[str]
    stop_by: Optional[int]
    refusal: Optional[str]
    tasks: List["Task"]


class AttemptList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["AttemptList"]
    items: List["Attempt"]
    next: Optional[str]


class Array(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Array"]
    id: int
    name: Optional[str]
    size: int
    jobs: List[int]
    states: Dict[str, int]


class Gpu(TypedDict):
    index: int
    uuid: Optional[str]
    state: Literal["free", "used", "shared", "reserved", "drained", "unhealthy", "foreign"]
    reason: str
    util: int
    memory_used_mib: int
    power_watts: int
    temperature_celsius: int
    jobs: List[int]


class NodeItem(TypedDict):
    name: str
    state: Literal["idle", "mixed", "alloc", "drain", "draining", "down", "maint", "unknown"]
    gpus: int
    gpus_used: int
    gpus_free: int
    gpus_down: int
    gpus_unhealthy: int
    gpus_drained: int
    foreign: int
    sku: Optional[str]
    cpus: Optional[int]
    memory_bytes: Optional[int]
    labels: Optional[Dict[str, Any]]
    fake: Optional[bool]
    fences: Optional[List[str]]
    runtimes: Optional[List[str]]
    address: str
    version: str
    connected: bool
    seen_time: Optional[str]
    drain_reason: str
    drain_deadline: Optional[str]
    resume_time: Optional[str]
    reason: str
    reservation: Optional[str]
    reboot: Literal["", "wanted", "ordered"]


class Node(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Node"]
    name: str
    state: Literal["idle", "mixed", "alloc", "drain", "draining", "down", "maint", "unknown"]
    gpus: int
    gpus_used: int
    gpus_free: int
    gpus_down: int
    gpus_unhealthy: int
    gpus_drained: int
    foreign: int
    sku: Optional[str]
    cpus: Optional[int]
    memory_bytes: Optional[int]
    labels: Optional[Dict[str, Any]]
    fake: Optional[bool]
    fences: Optional[List[str]]
    runtimes: Optional[List[str]]
    address: str
    version: str
    connected: bool
    seen_time: Optional[str]
    drain_reason: str
    drain_deadline: Optional[str]
    resume_time: Optional[str]
    reason: str
    gpu_list: List["Gpu"]
    jobs: List[int]
    reservation: Optional[str]
    reboot: Literal["", "wanted", "ordered"]


class NodeList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["NodeList"]
    items: List["NodeItem"]
    next: Optional[str]


class GpuSummaryList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["GpuSummaryList"]
    items: List["GpuSummary"]
    next: Optional[str]


class VcItem(TypedDict):
    name: str
    policy: str
    guarantee: Dict[str, float]
    used: Dict[str, float]
    borrowed: float
    lent: float
    pending_gpus: int
    pending_jobs: int
    running_jobs: int
    borrow_max: Optional[float]
    share: float
    opportunistic: Dict[str, float]
    user_max: Optional[float]
    priorities: Literal["strict", "weights", "off"]
    min_runtime_seconds: int
    borrowed_by_sku: Dict[str, float]
    lent_by_sku: Dict[str, float]
    share_7d: float


class Vc(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Vc"]
    name: str
    policy: str
    guarantee: Dict[str, float]
    used: Dict[str, float]
    borrowed: float
    lent: float
    pending_gpus: int
    pending_jobs: int
    running_jobs: int
    borrow_max: Optional[float]
    share: float
    opportunistic: Dict[str, float]
    user_max: Optional[float]
    priorities: Literal["strict", "weights", "off"]
    min_runtime_seconds: int
    borrowed_by_sku: Dict[str, float]
    lent_by_sku: Dict[str, float]
    share_7d: float


class VcList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["VcList"]
    items: List["VcItem"]
    next: Optional[str]


class VcUsageListItemsItem(TypedDict):
    user: str
    gpus: int
    running_jobs: int
    pending_jobs: int


class VcUsageListSeriesItem(TypedDict):
    time: Optional[str]
    guaranteed: Optional[float]
    used: Optional[float]
    borrowed: Optional[float]
    lent: Optional[float]
    opportunistic: Optional[float]
    pending_gpus: Optional[float]


class VcUsageList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["VcUsageList"]
    items: List["VcUsageListItemsItem"]
    next: Optional[str]
    step_seconds: int
    series: List["VcUsageListSeriesItem"]


class UserListItemsItem(TypedDict):
    name: str
    gpus: int
    running_jobs: int
    pending_jobs: int
    max_gpus: Optional[int]
    max_jobs: Optional[int]


class UserList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["UserList"]
    items: List["UserListItemsItem"]
    next: Optional[str]


class LicenseListItemsItemHeldbyItem(TypedDict):
    job: int
    user: str
    count: int
    until: Optional[str]


class LicenseListItemsItem(TypedDict):
    name: str
    total: int
    used: int
    free: int
    pending_jobs: int
    heldBy: List["LicenseListItemsItemHeldbyItem"]


class LicenseList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["LicenseList"]
    items: List["LicenseListItemsItem"]
    next: Optional[str]


class Event(TypedDict):
    id: int
    time: Optional[str]
    kind: str
    job: Optional[int]
    node: Optional[str]
    detail: Any


class EventList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["EventList"]
    items: List["Event"]
    next: Optional[str]


class ExplanationAsks(TypedDict):
    nodes: int
    gpus: int
    gpu_share: int
    text: str


class ExplanationEntitlement(TypedDict):
    vc: str
    guarantee: float
    used: float
    borrowable: Optional[float]
    text: str


class ExplanationLicensesItem(TypedDict):
    name: str
    total: int
    used: int
    free: int
    asks: int
    short: bool
    heldBy: List["LicenseListItemsItemHeldbyItem"]


class ExplanationFreeItem(TypedDict):
    node: str
    gpus: int
    sku: str


class ExplanationHeldbyItem(TypedDict):
    job: int
    array: Optional["JobArray"]
    user: str
    gpus: int
    nodes: List[str]
    until: Optional[str]


class ExplanationAheadItem(TypedDict):
    job: int
    array: Optional["JobArray"]
    user: str
    gpus: int
    start: Optional[str]


class ExplanationReservationsItem(TypedDict):
    name: str
    nodes: str
    start: str
    end: str


class ExplanationStartsnowwithItem(TypedDict):
    flags: str
    ok: bool
    nodes: str
    start: Optional[str]
    text: str


class ExplanationReceipt(TypedDict):
    attempt: int
    step: str
    by: Optional[int]
    lost_gpu_seconds: int
    text: str
    time: Optional[str]


class Explanation(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Explanation"]
    job: int
    array: Optional["JobArray"]
    name: Optional[str]
    user: str
    vc: str
    priority_class: str
    state: Literal["PENDING", "STARTING", "RUNNING", "SUSPENDED", "COMPLETING", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"]
    code: str
    message: str
    tier: Optional[int]
    since: Optional[str]
    kept_until: Optional[str]
    pending_seconds: int
    asks: "ExplanationAsks"
    promise: NotRequired["JobPromise"]
    entitlement: Optional["ExplanationEntitlement"]
    licenses: List["ExplanationLicensesItem"]
    free: List["ExplanationFreeItem"]
    heldBy: List["ExplanationHeldbyItem"]
    ahead: List["ExplanationAheadItem"]
    eta: Optional["JobEta"]
    reservations: List["ExplanationReservationsItem"]
    startsNowWith: List["ExplanationStartsnowwithItem"]
    receipt: Optional["ExplanationReceipt"]


class Plan(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Plan"]
    feasible: bool
    code: str
    message: str
    startsAt: Optional[str]
    eta: Optional["JobEta"]
    asks: "ExplanationAsks"
    licenses: List["ExplanationLicensesItem"]
    nodelist: str
    preempts: List[int]
    alternatives: List["ExplanationStartsnowwithItem"]
    warnings: List[str]


class BatchResultItemsItem(TypedDict):
    id: int
    ok: bool
    status: int
    code: str
    detail: str


class BatchResult(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["BatchResult"]
    items: List["BatchResultItemsItem"]
    next: Optional[str]


class ScheduleListItemsItem(TypedDict):
    job: int
    node: str
    start: Optional[str]
    end: Optional[str]
    gpus: List[int]
    attempt: int
    user: str
    vc: str
    state: str
    planned: bool
    until: Optional[str]


class ScheduleList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["ScheduleList"]
    items: List["ScheduleListItemsItem"]
    next: Optional[str]
    nodes: List[str]
    now: Optional[str]


class ReportListItemsItem(TypedDict):
    key: str
    jobs: int
    failed: int
    gpu_seconds: int
    gpu_usec: int
    preemptions: int
    lost_gpu_seconds: int
    mean_wait_seconds: Optional[float]
    measured_gpu_seconds: int
    used_gpu_seconds: int
    efficiency: Optional[float]
    max_wait_seconds: Optional[float]


ReportList = TypedDict("ReportList", {
    "apiVersion": Literal["v1"],
    "kind": Literal["ReportList"],
    "items": List["ReportListItemsItem"],
    "next": Optional[str],
    "by": str,
    "from": Optional[str],
    "to": Optional[str],
    "about": Literal["usage", "efficiency", "wait", "preemption"],
})

class JobMetricListItemsItemSeriesItem(TypedDict):
    time: Optional[str]
    util: int
    memory_used_mib: int
    power_watts: int


class JobMetricListItemsItem(TypedDict):
    rank: int
    node: str
    gpu: int
    util: Optional[int]
    memory_used_mib: Optional[int]
    power_watts: Optional[int]
    temperature_celsius: Optional[int]
    time: Optional[str]
    series: List["JobMetricListItemsItemSeriesItem"]


class JobMetricList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["JobMetricList"]
    items: List["JobMetricListItemsItem"]
    next: Optional[str]
    step_seconds: int


class Token(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Token"]
    id: str
    token: str
    user: str
    role: str
    scope: str
    expires_time: Optional[str]


class TokenListItemsItem(TypedDict):
    id: str
    user: str
    role: str
    scope: str
    created_time: Optional[str]
    expires_time: Optional[str]
    nodes: NotRequired[int]


class TokenList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["TokenList"]
    items: List["TokenListItemsItem"]
    next: Optional[str]


class Principal(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Principal"]
    user: str
    uid: Optional[int]
    role: Literal["nobody", "viewer", "user", "vc-admin", "admin", "agent"]
    scope: str
    via: str
    token: Optional[str]


class Version(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Version"]
    version: str
    api: str
    cluster: str
    features: List[str]
    dev: bool


class Config(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Config"]
    cluster: str
    policy: str
    lease_seconds: int
    node_timeout_seconds: int
    vcs: List["VcItem"]
    licenses: Dict[str, int]


class SchedulerPoliciesItem(TypedDict):
    name: str
    summary: str


class Scheduler(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Scheduler"]
    paused: bool
    policy: str
    seq: int
    waiting: int
    running: int
    decisions: int
    agents: int
    clients: int
    started_time: Optional[str]
    last_time: Optional[str]
    policies: List["SchedulerPoliciesItem"]


class DecisionList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["DecisionList"]
    items: List[str]
    next: Optional[str]


Submission = Dict[str, Any]

class Joined(TypedDict):
    cluster: str
    node: str
    certificate: str
    ca: str


class UsageListItemsItemSeriesItem(TypedDict):
    time: Optional[str]
    used: Optional[float]
    free: Optional[float]
    down: Optional[float]
    foreign: Optional[float]
    busy: Optional[float]
    largest_gang: Optional[float]
    fragmentation: Optional[float]


class UsageListItemsItem(TypedDict):
    sku: str
    series: List["UsageListItemsItemSeriesItem"]


class UsageList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["UsageList"]
    items: List["UsageListItemsItem"]
    next: Optional[str]
    step_seconds: int


class Alert(TypedDict):
    kind: str
    severity: Literal["critical", "warning", "info"]
    since: Optional[str]
    text: str
    hint: Optional[str]
    node: Optional[str]
    gpu: Optional[int]
    vc: Optional[str]
    job: Optional[int]
    user: Optional[str]


class AlertList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["AlertList"]
    items: List["Alert"]
    next: Optional[str]


class GpuSummaryVcsValue(TypedDict):
    guarantee: int
    used: int
    can_borrow: int


class GpuSummary(TypedDict):
    sku: str
    total: int
    used: int
    free: int
    down: int
    foreign: int
    drained: int
    unhealthy: int
    biggest_node: int
    biggest_gang: int
    vcs: Dict[str, "GpuSummaryVcsValue"]


class OverviewWaitingByReasonItem(TypedDict):
    code: str
    jobs: int
    gpus: int
    oldest_seconds: int


class OverviewWaitingBySizeItem(TypedDict):
    size: str
    jobs: int
    gpus: int
    oldest_seconds: int


class OverviewWaitBySizeItem(TypedDict):
    size: str
    jobs: int
    p50_seconds: Optional[float]
    p95_seconds: Optional[float]


class Overview(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Overview"]
    cluster: str
    time: Optional[str]
    paused: bool
    gpus: List["GpuSummary"]
    vcs: List["VcItem"]
    jobs: Dict[str, int]
    my_jobs: Dict[str, int]
    waiting_by_reason: List["OverviewWaitingByReasonItem"]
    waiting_by_size: List["OverviewWaitingBySizeItem"]
    wait_by_size: List["OverviewWaitBySizeItem"]
    alerts: List["Alert"]


class CellGpusItem(TypedDict):
    index: int
    state: str
    jobs: List[int]
    vc: Optional[str]
    user: Optional[str]
    guaranteed: bool
    util: int


class Cell(TypedDict):
    level: Literal["group", "socket", "node", "rack", "domain", "cluster"]
    name: str
    gpu_count: int
    free: int
    state: NotRequired[str]
    sku: NotRequired[str]
    cells: NotRequired[List["Cell"]]
    gpus: NotRequired[List["CellGpusItem"]]


class CellTreeVcsItemGuaranteesItem(TypedDict):
    sku: str
    count: int
    unit: str
    together: int


class CellTreeVcsItemCellsItemGpusItem(TypedDict):
    node: str
    indices: List[int]


class CellTreeVcsItemCellsItem(TypedDict):
    address: str
    type: str
    gpu_count: int
    used: int
    healthy: bool
    bound: Optional[str]
    doomed: bool
    gpus: List["CellTreeVcsItemCellsItemGpusItem"]


class CellTreeVcsItem(TypedDict):
    name: str
    guarantees: List["CellTreeVcsItemGuaranteesItem"]
    cells: List["CellTreeVcsItemCellsItem"]


class CellTree(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["CellTree"]
    items: List["Cell"]
    vcs: List["CellTreeVcsItem"]


class SimProgress(TypedDict):
    done: int
    total: int
    step: str


class Sim(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Sim"]
    id: int
    user: str
    state: Literal["waiting", "running", "done", "failed"]
    created_time: Optional[str]
    ended_time: Optional[str]
    source: Literal["history", "trace"]
    since: Optional[str]
    until: Optional[str]
    jobs: Optional[int]
    policies: List[str]
    error: Optional[str]
    progress: "SimProgress"
    notes: str
    commands: List[str]
    items: List["SimRun"]


class SimListItemsItem(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Sim"]
    id: int
    user: str
    state: Literal["waiting", "running", "done", "failed"]
    created_time: Optional[str]
    ended_time: Optional[str]
    source: Literal["history", "trace"]
    since: Optional[str]
    until: Optional[str]
    jobs: Optional[int]
    policies: List[str]
    error: Optional[str]
    progress: "SimProgress"


class SimList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["SimList"]
    items: List["SimListItemsItem"]
    next: Optional[str]


class SimRun(TypedDict):
    """docs/report.md names every key; more may come"""
    label: str
    policy: str
    jobs: int
    finished: int
    avg_jct_seconds: Optional[float]
    avg_queue_seconds: Optional[float]
    p95_queue_seconds: Optional[float]
    gpu_utilization_ratio: Optional[float]
    preemptions: int
    fairness_ratio: Optional[float]
    series: Dict[str, Any]
    queue_seconds_by_percentile: List[float]
    by_vc: NotRequired[Dict[str, Any]]


class Limits(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Limits"]
    user: str
    max_gpus: Optional[int]
    max_jobs: Optional[int]
    own: bool


class VcSettings(TypedDict):
    name: NotRequired[str]
    quota: NotRequired[Any]
    guarantee: NotRequired[Any]
    borrow: NotRequired[Any]
    policy: NotRequired[Any]
    max_user_gpus: NotRequired[Any]
    access: NotRequired[Any]
    priorities: NotRequired[Any]
    min_runtime: NotRequired[Any]
    optimise: NotRequired[Any]
    set: NotRequired[Any]


class ConfigDiffPreemptsItem(TypedDict):
    job: int
    user: str
    vc: str
    gpus: int
    how: str


class ConfigDiff(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["ConfigDiff"]
    before: Dict[str, Any]
    after: Dict[str, Any]
    preempts: List["ConfigDiffPreemptsItem"]
    starts: List["ConfigDiffPreemptsItem"]


class ClusterFile(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["ClusterFile"]
    file: Dict[str, Any]


class QueueListItemsItem(TypedDict):
    """a JobItem, and its place"""
    id: int
    position: int
    gpus_ahead: int


class QueueList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["JobList"]
    items: List["QueueListItemsItem"]
    next: Optional[str]
    total: int


class TopologyItemsItem(TypedDict):
    name: str
    state: str
    rack: str
    domain: str
    sku: Optional[str]
    memory_mib: int
    sockets: int
    groups: int
    gpus: str
    jobs: List[int]
    more: List[int]
    util: List[int]
    memory_used_mib: List[int]


class TopologyJobsItem(TypedDict):
    id: int
    array: Optional["JobArray"]
    name: Optional[str]
    user: str
    vc: str
    gpus: int
    borrowed: bool


class Topology(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Topology"]
    time: str
    items: List["TopologyItemsItem"]
    jobs: List["TopologyJobsItem"]


class Estimator(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Estimator"]
    version: int
    jobs: int
    training: bool
    trained_time: Optional[str]
    known: int
    features: List[str]
    targets: List[str]
    error: Optional[str]


class SecretListItemsItem(TypedDict):
    name: str


class SecretList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["SecretList"]
    items: List["SecretListItemsItem"]
    next: Optional[str]


class WebhookListItemsItem(TypedDict):
    id: str
    to: str
    kinds: List[str]


class WebhookList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["WebhookList"]
    items: List["WebhookListItemsItem"]
    next: Optional[str]
    enabled: bool
    sent: int
    failed: int
    dropped: int


class ReservationItem(TypedDict):
    name: str
    nodes: str
    start: Optional[str]
    end: Optional[str]
    lead_seconds: int
    users: NotRequired[List[str]]
    vcs: NotRequired[List[str]]
    reason: NotRequired[str]
    state: Literal["planned", "active"]


class Reservation(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Reservation"]
    name: str
    nodes: str
    start: Optional[str]
    end: Optional[str]
    lead_seconds: int
    users: NotRequired[List[str]]
    vcs: NotRequired[List[str]]
    reason: NotRequired[str]
    state: Literal["planned", "active"]


class ReservationList(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["ReservationList"]
    items: List["ReservationItem"]
    next: Optional[str]


class ReservationWanted(TypedDict):
    name: NotRequired[str]
    nodes: NotRequired[str]
    start: NotRequired[Union[str, int]]
    end: NotRequired[Union[str, int]]
    lead_seconds: NotRequired[int]
    users: NotRequired[List[str]]
    vcs: NotRequired[List[str]]
    reason: NotRequired[str]


class Issuer(TypedDict):
    apiVersion: NotRequired[str]
    kind: NotRequired[str]
    issuer: str
    client_id: str
    scope: str
    authorization_endpoint: Optional[str]
    device: bool


class DeviceLogin(TypedDict):
    apiVersion: NotRequired[str]
    kind: NotRequired[str]
    device_code: NotRequired[Optional[str]]
    user_code: NotRequired[Optional[str]]
    verification_uri: NotRequired[Optional[str]]
    verification_uri_complete: NotRequired[Optional[str]]
    interval_seconds: NotRequired[int]
    expires_seconds: NotRequired[int]
    pending: NotRequired[str]


class Audit(TypedDict):
    apiVersion: Literal["v1"]
    kind: Literal["Audit"]
    ok: bool
    jobs: int
    count: int
    differences: List[str]
