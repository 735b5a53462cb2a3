"""The messages of Paceline's API.

Made from schema/openapi.yaml by tools/python_types.py: do not edit.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


Labels: TypeAlias = "dict[str, str]"


class ModelDescription(TypedDict):
    """A chain of units. docs/models.md explains it."""

    name: Name
    input: NotRequired[dict[str, Any]]
    units: list[dict[str, Any]]
    loss: NotRequired[dict[str, Any]]


class KernelChoice(TypedDict):
    """The kernel of each pass of a convolution; by shape if left out."""

    forward: NotRequired[Kernel]
    backward_data: NotRequired[Kernel]
    backward_weights: NotRequired[Kernel]


class SubmodelGroupsItem(TypedDict):
    classes: list[int]
    width: NotRequired[float | None]
    labels: NotRequired[Labels]


SubmodelGroups: TypeAlias = "list[SubmodelGroupsItem]"


KernelTable: TypeAlias = "dict[str, KernelChoice]"


JobClone: TypeAlias = "dict[str, Any]"


class ClassNames(TypedDict):
    class_names: list[str] | None


class PartReplicasList(TypedDict):
    parts: list[PartReplicas]


Name: TypeAlias = "str"


DeviceId: TypeAlias = "str"


JobId: TypeAlias = "str"


PlanId: TypeAlias = "str"


IncidentId: TypeAlias = "str"


CheckpointId: TypeAlias = "str"


TokenId: TypeAlias = "str"


AuditId: TypeAlias = "str"


Sha256: TypeAlias = "str"


Count: TypeAlias = "int"


class DeviceList(TypedDict):
    items: list[Device | DeviceShort]
    next_cursor: str | None
    revision: Count


class ModelList(TypedDict):
    items: list[ModelRow]
    next_cursor: str | None
    revision: Count


class DatasetList(TypedDict):
    items: list[Dataset | LocalDataset]
    next_cursor: str | None
    revision: Count


class JobList(TypedDict):
    items: list[Job | JobShort]
    next_cursor: str | None
    revision: Count


class PlanList(TypedDict):
    items: list[Plan]
    next_cursor: str | None


class CheckpointList(TypedDict):
    items: list[Checkpoint]
    next_cursor: str | None
    revision: NotRequired[Count]


class IncidentList(TypedDict):
    items: list[Incident]
    next_cursor: str | None
    revision: NotRequired[Count]


class MixList(TypedDict):
    items: list[Mix]
    next_cursor: str | None


class TokenList(TypedDict):
    items: list[Token]
    next_cursor: str | None


class AuditList(TypedDict):
    items: list[AuditEntry]
    next_cursor: str | None


class MetricList(TypedDict):
    items: list[JobMetric]
    next_cursor: str | None


Kernel: TypeAlias = Literal[
    "by_shape", "columns", "pointwise", "depthwise", "direct", "winograd4", "onednn_direct",
    "onednn_nhwc", "onednn_winograd",
]


EventType: TypeAlias = Literal[
    "average_stored", "blob_damaged", "checkpoint_deleted", "checkpoint_stored", "dataset_deleted",
    "dataset_stored", "device_accepted", "device_cordoned", "device_disconnected", "device_drained",
    "device_draining", "device_enrolled", "device_joined", "device_leaving", "device_lost",
    "device_online", "device_rekeyed", "device_removed", "device_renamed", "device_shared",
    "device_suspect", "device_uncordoned", "device_undrained", "export_failed", "generation_failed",
    "group_lost", "group_refused", "group_started", "groups_divided", "incident_abandoned",
    "incident_deleted", "incident_opened", "incident_resolved", "job_cancelled", "job_cancelling",
    "job_deleted", "job_failed", "job_paused", "job_pausing", "job_phase", "job_planning",
    "job_preparing", "job_queued", "job_recovering", "job_replanning", "job_running", "job_stalled",
    "job_stops_early", "job_succeeded", "job_waiting_for_devices", "model_deleted", "model_stored",
    "plan_made",
]


ProblemCode: TypeAlias = Literal[
    "invalid_json", "invalid_fields", "invalid_parameter", "unauthorized", "forbidden",
    "quota_exceeded", "invalid_dataset", "invalid_checkpoint", "invalid_blob",
    "unsupported_media_type", "body_too_large", "not_found", "unknown_device", "unknown_job",
    "unknown_model", "unknown_dataset", "unknown_plan", "unknown_checkpoint", "unknown_incident",
    "unknown_blob", "unknown_token", "method_not_allowed", "name_taken", "wrong_state", "in_use",
    "group_of_job", "idempotency_mismatch", "revision_mismatch", "stale_generation", "stale_boot",
    "identity_in_use", "protocol_version", "not_enough_devices", "model_too_large", "bad_split",
    "range_not_satisfiable", "wrong_key", "forbidden_origin", "too_many", "disk_full", "busy",
    "stopping", "internal",
]


class Assignment(TypedDict):
    """The desired state of a device."""

    revision: Count
    interval_ms: int
    drop: NotRequired[list[Drop]]
    callers: NotRequired[list[Caller]]
    relays: NotRequired[list[Relay]]
    challenge: NotRequired[str | None]
    run: NotRequired[AssignmentRun | None]


class AuditEntry(TypedDict):
    """One change that a request made."""

    id: AuditId
    created_at: str
    token: str | None
    token_name: str | None
    address: str
    method: str
    path: str
    subject: str | None
    status: int | None


class Checkpoint(TypedDict):
    """A trained model in the center, or uploaded weights."""

    id: CheckpointId
    job: str | None
    parent: NotRequired[str | None]
    part: NotRequired[Literal["whole", "stem", "group", "joint"]]
    group: NotRequired[int]
    revision: Count
    version: Count
    sha256: Sha256
    size_bytes: Count
    created_at: str | None
    damaged: NotRequired[bool]


class Dataset(TypedDict):
    name: Name
    revision: Count
    sha256: Sha256
    size_bytes: Count
    samples: Count
    height: int
    width: int
    channels: int
    dtype: str
    classes: int
    positions: NotRequired[int]
    class_names_sha256: str | None
    class_counts: NotRequired[list[Count]]
    reading: str | None
    created_at: str | None


class DeviceShort(TypedDict):
    """A device in a list with `view=short`; `GET /v1/devices/{id}` has the rest."""

    id: DeviceId
    revision: Count
    name: Name
    state: Literal["joined", "online", "suspect", "disconnected", "lost", "removed"]
    cordoned: bool
    draining: bool
    leaving: bool
    drained: bool
    labels: Labels
    job: str | None
    busy_share: float
    last_seen_at: str | None


class Device(TypedDict):
    """One machine with one agent."""

    id: DeviceId
    revision: Count
    name: Name
    state: Literal["joined", "online", "suspect", "disconnected", "lost", "removed"]
    cordoned: bool
    draining: NotRequired[bool]
    leaving: NotRequired[bool]
    drained: NotRequired[bool]
    pending: NotRequired[bool]
    join_token: NotRequired[str | None]
    public_key: str | None
    address: str | None
    numeric_class: str | None
    protocol: int
    inventory: DeviceInventory
    probe: DeviceProbe
    labels: Labels
    data: NotRequired[list[Offer]]
    job: str | None
    created_at: str | None
    last_seen_at: str | None
    resident_bytes: Count
    free_memory_bytes: NotRequired[Count]
    busy_share: NotRequired[float]
    replica_bytes_sent: Count
    replica_bytes_written: Count
    relayed: NotRequired[list[DeviceId]]


class DevicePatch(TypedDict):
    """The fields of a device that users may change."""

    name: Name


class EnrollReply(TypedDict):
    device: DeviceId
    protocol: int
    interval_ms: int
    pending: NotRequired[bool]


class EnrollRequest(TypedDict):
    token: NotRequired[str | None]
    name: Name
    public_key: Sha256
    protocol: int
    boot: str
    address: str
    numeric_class: str
    inventory: NotRequired[DeviceInventory]
    probe: EnrollProbe
    labels: NotRequired[Labels]
    data: NotRequired[list[Offer]]


class Groups(TypedDict):
    """The parts of a job that consists of groups."""

    job: JobId
    phase: Literal["stem", "groups", "harvest", "joint", "mixing", "ended"]
    stem: Part
    groups: list[Group]
    divisions: NotRequired[Count]
    harvest: str | None
    joint: Part
    missing_classes: list[int]
    compute: NotRequired[SubmodelCompute]
    averages: NotRequired[list[Average]]
    averages_stored: NotRequired[Count]


class Event(TypedDict):
    id: str
    type: EventType
    subject: str | None
    job: NotRequired[str | None]
    parent: NotRequired[str | None]
    part: NotRequired[Literal["whole", "stem", "group", "joint"]]
    group: NotRequired[int]
    message: str
    created_at: str | None


class Heartbeat(TypedDict):
    """An absent member is zero, empty, false or null: agents leave out such members."""

    device: DeviceId
    boot: str
    revision: NotRequired[Count]
    job: NotRequired[str | None]
    generation: NotRequired[Count]
    plan: NotRequired[str | None]
    highest_generation: NotRequired[Count]
    phase: Literal["idle", "prepare", "ready", "run", "stopping", "stopped", "finished"]
    step: NotRequired[Count]
    stopped_version: NotRequired[Count]
    unevaluated: NotRequired[bool]
    address: NotRequired[str | None]
    challenge: NotRequired[str | None]
    unit_seconds: NotRequired[list[UnitSeconds]]
    update_seconds: NotRequired[float]
    stage_seconds: NotRequired[StageSeconds]
    links: NotRequired[list[LinkReport]]
    resident_bytes: NotRequired[Count]
    free_memory_bytes: NotRequired[Count]
    probe: NotRequired[IdleProbe | None]
    leaving: NotRequired[bool]
    early_stop: NotRequired[EarlyStop | None]
    bytes_moved: NotRequired[Count]
    fetch_seconds: NotRequired[float]
    busy_ms: NotRequired[Count]
    rounds: NotRequired[HeartbeatRounds]
    peer_reports: NotRequired[list[PeerReport]]
    relayed: NotRequired[list[DeviceId]]
    kernels: NotRequired[str | None]
    replica_bytes_sent: NotRequired[Count]
    replica_bytes_written: NotRequired[Count]
    mix: NotRequired[MixReport | None]
    metrics: NotRequired[list[Metric]]
    metrics_job: NotRequired[str | None]
    metrics_generation: NotRequired[Count]
    all_holdings: NotRequired[bool]
    holdings: NotRequired[list[Holding]]
    error: NotRequired[DeviceError | None]


class HeartbeatReply(TypedDict):
    """If rounds are absent, no round of the heartbeat has changed its state."""

    interval_ms: int
    revision: Count
    reenroll: bool
    start_id: NotRequired[Count]
    drained: NotRequired[bool]
    rounds: NotRequired[ReplyRounds]


class Incident(TypedDict):
    """One failure of a running job, from the first suspicion to resumed training."""

    id: IncidentId
    revision: Count
    job: JobId
    parent: NotRequired[str | None]
    part: NotRequired[Literal["whole", "stem", "group", "joint"]]
    group: NotRequired[int]
    state: Literal["open", "resolved", "abandoned"]
    cause: Literal["device_lost", "device_restarted", "link", "stalled", "error", "deadline"]
    message: str | None
    devices: list[IncidentDevice]
    generation_before: Count
    generation_after: int | None
    failures: Count
    step_reached: Count
    resume_version: Count
    steps_redone: Count
    bytes_moved: Count
    seconds: IncidentSeconds
    timeline: IncidentTimeline


class JoinReply(TypedDict):
    device: DeviceId
    name: Name
    pending: bool
    time: str


class JoinRequest(TypedDict):
    token: NotRequired[str | None]
    name: Name
    public_key: Sha256
    protocol: int


class JobShort(TypedDict):
    """A job in a list with `view=short`; `GET /v1/jobs/{id}` has the rest."""

    id: JobId
    revision: Count
    name: str | None
    model: str | None
    state: Literal[
        "queued", "planning", "preparing", "running", "replanning", "recovering", "pausing",
        "paused", "waiting_for_devices", "cancelling", "succeeded", "failed", "cancelled",
    ]
    state_reason: str | None
    message: str | None
    parent: NotRequired[str | None]
    part: NotRequired[Literal["whole", "stem", "group", "joint"]]
    group: NotRequired[int]
    progress: JobProgress
    generation: Count
    stalled: bool
    checkpoint: str | None
    created_at: str | None
    started_at: str | None
    ended_at: str | None


class Job(TypedDict):
    """A training run: its request and its state. A job that ended under an earlier version
    lacks newer members."""

    id: JobId
    revision: Count
    state: Literal[
        "queued", "planning", "preparing", "running", "replanning", "recovering", "pausing",
        "paused", "waiting_for_devices", "cancelling", "succeeded", "failed", "cancelled",
    ]
    state_reason: str | None
    message: str | None
    spec: JobSpec
    parent: NotRequired[str | None]
    part: NotRequired[Literal["whole", "stem", "group", "joint"]]
    group: NotRequired[int]
    data: JobData
    progress: JobProgress
    generation: Count
    version: Count
    neighbor_version: NotRequired[Count]
    stalled: NotRequired[bool]
    deadlines: NotRequired[JobDeadlines]
    line: NotRequired[list[LineStart]]
    replan_request: NotRequired[ReplanRequest | None]
    next_replication: NotRequired[ReplicationPeriods | None]
    last_check: NotRequired[JobCheck | None]
    cooldown_ms: NotRequired[Count]
    cooldown_until: NotRequired[str | None]
    setbacks: NotRequired[Count]
    doubt: NotRequired[float]
    corrected: NotRequired[bool]
    trial: NotRequired[JobTrial | None]
    rejected: NotRequired[JobRejected | None]
    early_stop: NotRequired[EarlyStop | None]
    checkpoints: NotRequired[list[KeptCheckpoint]]
    exact: bool
    numeric_class: str | None
    checkpoint: str | None
    compute: NotRequired[SubmodelCompute | None]
    export_version: NotRequired[int | None]
    exported_version: NotRequired[int | None]
    created_at: str | None
    started_at: str | None
    ended_at: str | None


class JobMetric(TypedDict):
    step: Count
    name: Literal[
        "loss", "step_seconds", "test_loss", "test_accuracy", "recall", "least_recall",
        "pull_seconds", "push_seconds", "segments_pull", "segments_push", "mix_seconds", "distance",
        "period_cv", "gap_seconds",
    ]
    value: float
    job: NotRequired[str | None]
    part: NotRequired[Literal["whole", "stem", "group", "joint"]]
    group: NotRequired[int]


class JobPreview(TypedDict):
    """The answer of a dry run."""

    starts: Literal["now", "when_free", "when_more_devices"]
    stages: list[PreviewStage]
    links: list[PlanLink]
    bottleneck: PlanBottleneck
    optimal: bool
    gap: float
    left_out: list[PreviewLeftOut]
    without_minimum: PlanWithoutMinimum
    predicted_step_seconds: float | None
    predicted_efficiency: float | None
    predicted_total_seconds: float | None
    steps: Count
    waiting_for: str | None
    submodel: SubmodelPreview | None
    gossip: GossipPreview | None
    parameter_server: ParameterServerPreview | None


class JobSpec(TypedDict):
    """A request for a job. docs/jobs.md explains every field."""

    name: NotRequired[Name]
    model: JobModel
    dataset: JobDataset
    view: NotRequired[JobView | None]
    init: NotRequired[JobInit]
    batch: NotRequired[int]
    micro_batches: NotRequired[int | None]
    epochs: NotRequired[int]
    steps: NotRequired[int | None]
    optimizer: NotRequired[Optimizer]
    learning_rate: NotRequired[LearningRate]
    augment: NotRequired[list[Augment]]
    freeze: NotRequired[list[str]]
    kernels: NotRequired[KernelTable | None]
    strategy: NotRequired[Literal["pipeline", "submodel", "parameter_server", "gossip"]]
    submodel: NotRequired[Submodel | None]
    parameter_server: NotRequired[ParameterServer | None]
    gossip: NotRequired[Gossip | None]
    pipeline: NotRequired[Literal["sync", "async"]]
    aggregate_every: NotRequired[int]
    vertical_sync: NotRequired[bool]
    devices: NotRequired[JobDevices]
    replication: NotRequired[JobReplication]
    replan: NotRequired[JobReplan]
    compression: NotRequired[Literal[
        "none", "bfloat16", "q8", "q6", "q4", "q3", "q2", "bfloat16+zstd", "q8+zstd", "q6+zstd",
        "q4+zstd", "q3+zstd", "q2+zstd", "auto",
    ]]
    recompute: NotRequired[Literal["none", "unit"]]
    expected_step_seconds: NotRequired[float | None]
    autonomy_seconds: NotRequired[int]
    evaluate: NotRequired[JobEvaluate]
    stop: NotRequired[StopRule | None]
    checkpoint: NotRequired[CheckpointPolicy | None]
    priority: NotRequired[int]
    cuts: NotRequired[list[int] | None]


class JobPatch(TypedDict):
    """The fields of a job that may change after its submission."""

    replication: NotRequired[JobReplication]
    replan: NotRequired[JobReplan]


class MeasuredLinkList(TypedDict):
    """Measured links."""

    items: list[MeasuredLink]
    next_cursor: str | None


class MeasuredUnitList(TypedDict):
    """The history of a device's units."""

    items: list[MeasuredUnit]
    next_cursor: str | None


class LocalDataset(TypedDict):
    """A data set that a device offers: its agent's `--data`."""

    device: DeviceId
    device_name: Name
    device_state: Literal["joined", "online", "suspect", "disconnected", "lost", "removed"]
    name: Name
    sha256: Sha256
    samples: int
    height: int
    width: int
    channels: int
    dtype: str
    classes: int
    positions: NotRequired[int]
    class_names_sha256: str | None
    class_counts: NotRequired[list[Count]]
    reading: str | None
    extends: NotRequired[list[OfferPart]]
    stale: NotRequired[bool]


class Metric(TypedDict):
    step: Count
    name: Literal[
        "loss", "step_seconds", "test_loss", "test_accuracy", "recall", "least_recall",
        "pull_seconds", "push_seconds", "segments_pull", "segments_push", "mix_seconds", "distance",
        "period_cv", "gap_seconds",
    ]
    value: float


class Mix(TypedDict):
    """A record of what a group of a job did."""

    id: str
    job: JobId
    created_at: str
    record: MixRecord


class ModelRow(TypedDict):
    name: str
    sha256: Sha256
    revision: Count
    created_at: str | None


class ModelView(TypedDict):
    name: str
    sha256: Sha256
    revision: Count
    created_at: NotRequired[str | None]
    assumed: bool
    input: ModelInput
    classes: int
    parameters: Count
    forward_flops: float
    backward_flops: float
    sgd_learning_rate: float
    units: list[ModelUnit]
    description: ModelDescription


class PartReplicas(TypedDict):
    """The copies of a part of a job."""

    job: JobId
    parent: NotRequired[str | None]
    part: NotRequired[Literal["whole", "stem", "group", "joint"]]
    group: NotRequired[int]
    copies: Replicas


class Plan(TypedDict):
    """Stages on devices, predicted and measured."""

    id: PlanId
    job: JobId
    parent: NotRequired[str | None]
    part: NotRequired[Literal["whole", "stem", "group", "joint"]]
    group: NotRequired[int]
    revision: Count
    generation: Count
    state: Literal["preparing", "running", "stopping", "done", "discarded"]
    reason: Literal[
        "first", "requested", "resumed", "device_lost", "prepare_failed", "restarted", "link",
        "stalled", "device_joined", "tuned", "drift", "device_left", "drained", "rolled_back",
        "data_appended",
    ]
    resume_version: Count
    last_version: int | None
    unevaluated: NotRequired[bool]
    failure: str | None
    verdict: NotRequired[Literal["none", "kept", "rolled_back", "superseded", "failed"]]
    stages: list[PlanStage]
    links: NotRequired[list[PlanLink]]
    bottleneck: NotRequired[PlanBottleneck]
    strict_order: NotRequired[bool]
    predicted_step_seconds: float
    predicted_efficiency: float
    optimal: bool
    gap: float
    left_out: list[PlanLeftOut]
    without_minimum: PlanWithoutMinimum
    measured_step_seconds: float | None
    measured_over_predicted: NotRequired[float | None]
    measured_steps: Count
    bytes_moved: Count
    prepare_seconds: float | None
    created_at: str | None
    started_at: str | None
    ended_at: str | None


class PlanAnswer(TypedDict):
    plan: JobPreview
    resume_version: Count
    steps_lost: Count
    combinations: list[PlanCombination]


class PlanQuestion(TypedDict):
    """The plan that a job would get, with other devices, links or fields."""

    job: NotRequired[JobId]
    spec: NotRequired[JobSpec | None]
    without: NotRequired[list[DeviceId]]
    devices: NotRequired[list[DeviceId | WhatIfDevice] | None]
    links: NotRequired[list[WhatIfLink]]
    vary: NotRequired[PlanVary | None]


class Prediction(TypedDict):
    """The expected times of a model's units on a device."""

    device: DeviceId
    model: str
    batch: int
    micro_batches: int
    units: list[PredictionUnit]
    processor_share: float
    overhead_seconds: float
    overhead_seconds_per_byte: float


class PredictionQuestion(TypedDict):
    """The model and the device to predict. The device need not have run the model's units."""

    device: DeviceId
    model: NotRequired[Name]
    dataset: NotRequired[Name]
    job: NotRequired[JobId]
    batch: NotRequired[int]
    micro_batches: NotRequired[int]


class Problem(TypedDict):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: NotRequired[str]
    instance: NotRequired[str]
    code: ProblemCode
    request_id: NotRequired[str]
    retryable: bool
    errors: NotRequired[list[Fault]]
    more_errors: NotRequired[bool]


class Replicas(TypedDict):
    """The holders of each version of a job, and the cost of failures now."""

    step: Count
    neighbor_version: Count
    center_version: Count
    units: list[ReplicaUnit]
    single: list[ReplicaLoss]
    double: list[ReplicaLoss]


class ReplanRequest(TypedDict):
    cuts: NotRequired[list[int] | None]
    devices: NotRequired[list[DeviceId] | None]
    generation: NotRequired[int | None]
    servers: NotRequired[int | None]
    share_ends: NotRequired[list[int] | None]


class ServiceStatus(TypedDict):
    status: str


class ServiceVersion(TypedDict):
    name: str
    version: str
    protocol: int
    protocol_min: int


class Token(TypedDict):
    """A bearer token, without its secret."""

    id: TokenId
    revision: int
    name: Name
    role: Literal["join", "read", "submit", "operate", "admin"]
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None
    max_bytes: NotRequired[Count]
    used_bytes: NotRequired[Count]
    max_jobs: NotRequired[Count]
    used_jobs: NotRequired[Count]
    uses_left: NotRequired[int]
    pending: NotRequired[bool]
    device: NotRequired[DeviceId]
    state: Literal["active", "expired", "revoked", "used_up"]


class TokenCreated(TypedDict):
    """A new bearer token."""

    id: TokenId
    revision: int
    name: Name
    role: Literal["join", "read", "submit", "operate", "admin"]
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None
    max_bytes: NotRequired[Count]
    used_bytes: NotRequired[Count]
    max_jobs: NotRequired[Count]
    used_jobs: NotRequired[Count]
    uses_left: NotRequired[int]
    pending: NotRequired[bool]
    device: NotRequired[DeviceId]
    state: Literal["active", "expired", "revoked", "used_up"]
    token: NotRequired[str]


class TokenRequest(TypedDict):
    """A token to create."""

    name: NotRequired[str | None]
    role: Literal["join", "read", "submit", "operate", "admin"]
    expires_seconds: NotRequired[int | None]
    max_bytes: NotRequired[int | None]
    max_jobs: NotRequired[int | None]
    uses: NotRequired[int | None]
    pending: NotRequired[bool]
    device: NotRequired[str | None]


class Drop(TypedDict):
    """Snapshots that may go: those older than below_version."""

    job: JobId
    below_version: int


class Caller(TypedDict):
    job: JobId
    generation: int
    device: DeviceId
    ticket: NotRequired[str | None]
    public_key: NotRequired[str | None]
    plan: NotRequired[str | None]
    relay_ticket: NotRequired[str | None]


class Relay(TypedDict):
    """A relay of connections to devices that others cannot reach."""

    url: NotRequired[str | None]
    port: NotRequired[int]


class AssignmentRun(TypedDict):
    job: JobId
    generation: int
    plan: PlanId
    phase: Literal["idle", "prepare", "ready", "run", "stopping", "stopped", "finished"]
    resume_version: Count
    stage: AssignmentStage
    sources: NotRequired[list[Source]]
    stages: NotRequired[list[AssignedStage]]
    previous: NotRequired[Peer | None]
    next: NotRequired[Peer | None]
    neighbor: NotRequired[Peer | None]
    replica_bytes: NotRequired[Count]
    deadlines: AssignmentDeadlines
    total_steps: Count
    early_stop: NotRequired[EarlyStop | None]
    mix: NotRequired[MixDuty | None]
    job_spec: JobSpec
    data: JobData


class DeviceInventory(TypedDict):
    hostname: NotRequired[str]
    os: NotRequired[str]
    architecture: NotRequired[str]
    cpu: NotRequired[str]
    agent_version: NotRequired[str]
    cores: NotRequired[int]
    memory_bytes: NotRequired[Count]
    zstd: NotRequired[bool]


class DeviceProbe(TypedDict):
    """Measured at enrolment, at the speed the agent will compute with."""

    gemm_gflops: float
    memory_bytes_per_second: float
    disk_write_bytes_per_second: NotRequired[float]
    processor_share: NotRequired[float]
    free_memory_bytes: Count
    threads: int


class Offer(TypedDict):
    """A data set that the device offers. Its samples never leave the device."""

    name: Name
    sha256: Sha256
    samples: int
    height: int
    width: int
    channels: int
    dtype: str
    classes: int
    positions: NotRequired[int]
    class_names_sha256: NotRequired[str | None]
    class_counts: NotRequired[list[Count]]
    reading: NotRequired[str | None]
    extends: NotRequired[list[OfferPart]]
    stale: NotRequired[bool]


class EnrollProbe(TypedDict):
    """Measured by the agent before it enrols."""

    gemm_gflops: float
    memory_bytes_per_second: float
    disk_write_bytes_per_second: NotRequired[float]
    processor_share: NotRequired[float]
    free_memory_bytes: Count
    threads: int


class Part(TypedDict):
    """A part of a job, itself a job."""

    state: Literal["waiting", "trains", "trained", "missing"]
    job: str | None
    attempts: Count
    checkpoint: str | None


class Group(TypedDict):
    """A group of a job."""

    group: int
    classes: list[int]
    width: float
    labels: Labels
    device: NotRequired[str | None]
    flops_per_sample: NotRequired[float | None]
    part: Part
    mixes: NotRequired[GroupMixes | None]


class SubmodelCompute(TypedDict):
    """What sub-models save compared with training the target alone, as factors. See
    docs/jobs.md."""

    per_sample_least: float | None
    per_sample_most: float | None
    total: float | None
    busiest: float | None
    flops: float | None


class Average(TypedDict):
    """An average of all groups."""

    checkpoint: CheckpointId
    step: Count
    accuracy: float | None


class UnitSeconds(TypedDict):
    """Mean seconds per micro-batch."""

    unit: Count
    forward_seconds: float
    backward_seconds: float


class StageSeconds(TypedDict):
    """Mean seconds per step of the last window: the step, and of it computing, waiting for an
    activation, for a gradient, and for room to send."""

    step: NotRequired[float]
    compute: NotRequired[float]
    stopped: NotRequired[float]
    wait_input: NotRequired[float]
    wait_gradient: NotRequired[float]
    wait_room: NotRequired[float]


class LinkReport(TypedDict):
    """Real transfers to a device since the last report: sums for a fit of seconds = a + bytes /
    B."""

    device: DeviceId
    kind: NotRequired[Literal["tensor", "replica", "fetch", "shared"]]
    codec: NotRequired[str | None]
    count: Count
    seconds_sum: float
    bytes_sum: float
    bytes_squared_sum: float
    bytes_seconds_sum: float


class IdleProbe(TypedDict):
    """A short probe that an idle device repeats."""

    gemm_gflops: float
    memory_bytes_per_second: float
    processor_share: NotRequired[float]
    age_ms: int


class EarlyStop(TypedDict):
    """The judgement of the evaluations so far by `stop` of the job."""

    version: Count
    best_version: int | None
    best: float
    since: Count
    met: bool


class HeartbeatRounds(TypedDict):
    """Stage 0: the versions of its open rounds of replication; 0: none."""

    neighbor: NotRequired[Count]
    center: NotRequired[Count]


class PeerReport(TypedDict):
    """A device that this one cannot reach."""

    device: DeviceId
    kind: Literal["refused", "broken", "stalled"]
    for_ms: Count


class MixReport(TypedDict):
    """What a group has done with its matches."""

    group: int
    generation: Count
    wants: NotRequired[bool]
    mixes: NotRequired[Count]
    pair: MixStatus
    average: MixStatus
    loss: NotRequired[float | None]
    distance: NotRequired[float | None]
    gap_seconds: NotRequired[float]
    held_out: NotRequired[MixTests | None]
    lacks: NotRequired[int]
    records: NotRequired[list[MixRecord]]


class Holding(TypedDict):
    """A verified snapshot that the device holds."""

    job: JobId
    generation: Count
    version: Count
    unit: int
    sha256: Sha256
    size_bytes: Count


class DeviceError(TypedDict):
    code: str
    message: str


class ReplyRounds(TypedDict):
    """The state of the rounds of the heartbeat."""

    neighbor: NotRequired[Round]
    center: NotRequired[Round]


class IncidentDevice(TypedDict):
    id: DeviceId
    name: str


class IncidentSeconds(TypedDict):
    """Seconds of each phase; 0: the phase is not over."""

    detect: float
    decide: float
    fetch: float
    rebuild: float
    resume: float


class IncidentTimeline(TypedDict):
    """Times of day; null: not reached yet."""

    suspected_at: str | None
    detected_at: str | None
    decided_at: str | None
    fetched_at: str | None
    ready_at: str | None
    resumed_at: str | None


class JobProgress(TypedDict):
    fraction: float
    step: Count
    steps: Count
    epoch: Count
    loss: float | None
    accuracy: float | None
    recall: NotRequired[float | None]
    least_recall: NotRequired[float | None]
    samples_per_second: float | None
    eta_seconds: float | None


class JobData(TypedDict):
    """The data sets and the checkpoint of the job, fixed at submission."""

    train_sha256: str | None
    test_sha256: str | None
    train_samples: Count
    test_samples: Count
    epoch_samples: NotRequired[Count]
    holdout_samples: NotRequired[Count]
    checkpoint_sha256: str | None
    checkpoint_size_bytes: Count
    joint_sha256: NotRequired[Sha256]
    joint_samples: NotRequired[Count]
    tune: bool


class JobDeadlines(TypedDict):
    """Timeouts for the job's devices in milliseconds. Formulas: docs/protocol.md."""

    heartbeat_ms: Count
    suspect_ms: Count
    lease_ms: Count
    challenge_ms: Count
    peer_ms: Count
    link_ms: Count
    step_ms: Count
    evaluation_ms: Count
    prepare_ms: Count
    stop_ms: Count
    round_ms: Count


class LineStart(TypedDict):
    generation: Count
    first: Count


class ReplicationPeriods(TypedDict):
    neighbor_every: int
    center_every: int


class JobCheck(TypedDict):
    step: Count
    trigger: Literal[
        "step", "drift", "device_joined", "device_cordoned", "device_drained", "slower",
        "recovered",
    ]
    gain_seconds: float
    cost_seconds: float
    verdict: Literal[
        "replans", "same_plan", "too_little_gain", "too_dear", "cools_down", "rejected", "no_plan",
        "rolls_back",
    ]


class JobTrial(TypedDict):
    generation: Count
    step_seconds: float
    expected_step_seconds: NotRequired[float]
    before: ReplanRequest


class JobRejected(TypedDict):
    stages: ReplanRequest
    stage_seconds: list[float]


class KeptCheckpoint(TypedDict):
    """A checkpoint that a job stored while it trained."""

    checkpoint: str | None
    version: Count
    value: float | None
    sha256: str | None


class PreviewStage(TypedDict):
    device: str | None
    name: str
    first: int
    end: int
    units: list[str]
    in_flight: int
    share: NotRequired[PlanShare]
    codec: Literal[
        "none", "bfloat16", "q8", "q6", "q4", "q3", "q2", "bfloat16+zstd", "q8+zstd", "q6+zstd",
        "q4+zstd", "q3+zstd", "q2+zstd",
    ]
    memory_bytes: Count
    memory: PlanMemory
    predicted_forward_seconds: float
    predicted_backward_seconds: float
    predicted_busy: float
    predicted_pull_seconds: NotRequired[float]
    predicted_push_seconds: NotRequired[float]
    pull_segments: NotRequired[Count]
    push_segments: NotRequired[Count]


class PlanLink(TypedDict):
    """The link between a stage and the next one."""

    codec: Literal[
        "none", "bfloat16", "q8", "q6", "q4", "q3", "q2", "bfloat16+zstd", "q8+zstd", "q6+zstd",
        "q4+zstd", "q3+zstd", "q2+zstd",
    ]
    bytes: Count
    predicted_seconds: float
    measured_seconds: float | None


class PlanBottleneck(TypedDict):
    """The stage or link that the prediction shows as busiest."""

    part: Literal["none", "stage", "link"]
    index: int
    busy: float


class PreviewLeftOut(TypedDict):
    device: str | None
    name: str
    reason: Literal["slower", "no_gain", "no_memory", "stages_full", "unavailable"]
    step_seconds_with: float | None


class PlanWithoutMinimum(TypedDict):
    """The step time with fewer devices than `devices.min`."""

    devices: int
    step_seconds: float | None


class SubmodelPreview(TypedDict):
    """The prediction for a job of sub-models: groups on devices, seconds of its phases,
    savings, and the seconds of the target in a pipeline and on one device."""

    groups: list[PreviewGroup]
    stem_seconds: float | None
    groups_seconds: float | None
    joint_seconds: float | None
    total_seconds: float | None
    compute: SubmodelCompute
    pipeline_seconds: float | None
    single_seconds: float | None
    single_device: str | None
    single_name: str | None
    fastest: Literal["none", "submodel", "pipeline", "single"]


class GossipPreview(TypedDict):
    """The prediction for a job of groups that train apart."""

    groups: list[GossipPreviewGroup]
    period_seconds: float | None
    copy_bytes: Count
    epoch_seconds: float | None
    total_seconds: float | None
    rounds_seconds: float | None
    sized_rounds_seconds: float | None
    pipeline_seconds: float | None
    single_seconds: float | None
    fastest: Literal["none", "gossip", "pipeline", "single"]


class ParameterServerPreview(TypedDict):
    """The step of a job of servers and workers, compared with other ways to train."""

    transfers: Literal[
        "optimal", "stream", "layer", "layer_window", "greedy", "ready", "whole", "fixed", "auto",
    ]
    step_seconds: float | None
    optimal_step_seconds: float | None
    whole_step_seconds: float | None
    layer_step_seconds: float | None
    layer_window_step_seconds: float | None
    pipeline_step_seconds: float | None
    single_step_seconds: float | None
    single_device: str | None
    single_name: str | None
    fastest: Literal["none", "single", "pipeline", "parameter_server"]


class JobModel(TypedDict):
    """A name of the zoo or of /v1/models, or a description."""

    name: NotRequired[str | None]
    sha256: NotRequired[str | None]
    description: NotRequired[dict[str, Any] | None]


class JobDataset(TypedDict):
    train: Name | JobTrain
    test: NotRequired[Name | JobTest | None]


class JobView(TypedDict):
    """The samples of the training data that the job trains on: a shard, or some classes, which
    the job learns to tell apart from each other and from all others."""

    classes: NotRequired[list[int]]
    negatives: NotRequired[float]
    holdout: NotRequired[float]
    numbers: NotRequired[Literal["view", "data"]]
    shard: NotRequired[ViewShard | None]


JobInit = TypedDict(
    "JobInit",
    {
        "seed": "NotRequired[Count]",
        "checkpoint": "NotRequired[str | None]",
        "except": "NotRequired[list[str]]",
    },
)


class Optimizer(TypedDict):
    type: NotRequired[Literal["sgd", "adam", "adamw"]]
    momentum: NotRequired[float]
    nesterov: NotRequired[bool]
    beta1: NotRequired[float]
    beta2: NotRequired[float]
    epsilon: NotRequired[float]
    weight_decay: NotRequired[float]
    clip_value: NotRequired[float | None]
    clip_norm: NotRequired[float | None]


class LearningRate(TypedDict):
    type: NotRequired[Literal["constant", "step", "cosine"]]
    value: NotRequired[float | None]
    warmup_steps: NotRequired[int]
    step_size: NotRequired[int | None]
    gamma: NotRequired[float]
    final_value: NotRequired[float]


class Augment(TypedDict):
    type: Literal["crop", "flip", "normalise"]
    padding: NotRequired[int]
    mean: NotRequired[list[float]]
    std: NotRequired[list[float]]


class Submodel(TypedDict):
    """A job of sub-models. See docs/jobs.md."""

    stem: NotRequired[int]
    stem_epochs: NotRequired[int]
    groups: NotRequired[SubmodelGroups | None]
    group_count: NotRequired[int | None]
    negatives: NotRequired[float]
    allow_no_negatives: NotRequired[bool]
    replicas: NotRequired[int]
    joint: NotRequired[Joint]
    deadline_seconds: NotRequired[int | None]


class ParameterServer(TypedDict):
    """A job of servers and workers. See docs/jobs.md."""

    servers: NotRequired[int | None | list[ServerPlace]]
    server_labels: NotRequired[Labels]
    worker_labels: NotRequired[Labels]
    transfers: NotRequired[Literal[
        "optimal", "stream", "layer", "layer_window", "greedy", "ready", "whole", "fixed", "auto",
    ]]
    segment_bytes: NotRequired[int]
    shares: NotRequired[Literal["speed", "equal"] | list[int]]


class Gossip(TypedDict):
    """A job of groups that train apart. See docs/jobs.md."""

    schedule: NotRequired[Literal["async", "rounds"]]
    level: NotRequired[bool]
    split: NotRequired[Literal["even", "speed", "dirichlet", "by_class"] | None]
    alpha: NotRequired[float | None]
    classes_per_shard: NotRequired[int]
    pairs: NotRequired[Literal["bandwidth", "uniform"]]
    weights: NotRequired[Literal["equal", "accuracy"]]
    critical: NotRequired[float]
    average_by: NotRequired[Literal["groups", "samples"] | None]
    average_every: NotRequired[int | None]
    adopt: NotRequired[bool]
    target_accuracy: NotRequired[float | None]


class JobDevices(TypedDict):
    labels: NotRequired[Labels]
    min: NotRequired[int]
    max: NotRequired[int]
    numeric_class: NotRequired[str | None]


class JobReplication(TypedDict):
    neighbor_every: NotRequired[int]
    center_every: NotRequired[int]


class JobReplan(TypedDict):
    first: NotRequired[int]
    every: NotRequired[int]


class JobEvaluate(TypedDict):
    every_epochs: NotRequired[int]


class StopRule(TypedDict):
    """The rule by which the job ends before its last step."""

    metric: NotRequired[Literal["test_accuracy", "test_loss", "recall"]]
    patience: NotRequired[int | None]
    target: NotRequired[float | None]


class CheckpointPolicy(TypedDict):
    """Versions that become checkpoints while the job trains."""

    every_epochs: NotRequired[int]
    keep: NotRequired[Literal["last", "best"]]
    count: NotRequired[int]


MeasuredLink = TypedDict(
    "MeasuredLink",
    {
        "from": "DeviceId",
        "to": "DeviceId",
        "kind": "Literal['tensor', 'replica', 'fetch', 'shared']",
        "codec": "NotRequired[str]",
        "transfers": "float",
        "mean_seconds": "float",
        "mean_bytes": "float",
        "latency_seconds": "float",
        "bytes_per_second": "float",
        "at": "str",
    },
)


class MeasuredUnit(TypedDict):
    at: str
    job: JobId
    unit: int
    forward_seconds: float
    backward_seconds: float


class OfferPart(TypedDict):
    """A data set as it was before samples were appended: its first samples."""

    sha256: Sha256
    samples: int


class MixRecord(TypedDict):
    """What a group did. The job and its records determine every bit of the result."""

    xid: MixXid
    kind: Literal["pair", "average", "adopt", "start", "stored"]
    own: MixMember
    peers: NotRequired[list[MixMember]]
    alpha: NotRequired[float]
    statistics_alpha: NotRequired[float]
    applied_step: NotRequired[Count]
    applied_mixes: NotRequired[Count]
    rate_step: NotRequired[Count]
    samples: NotRequired[Count]
    sha256: NotRequired[Sha256]
    steps: NotRequired[Count]


class ModelInput(TypedDict):
    height: int
    width: int
    channels: int
    dtype: str


class ModelUnit(TypedDict):
    name: str
    output: ModelOutput
    parameters: Count
    parameter_bytes: Count
    activation_bytes: Count
    output_bytes: Count
    forward_flops: float
    backward_flops: float


class PlanStage(TypedDict):
    device: DeviceId
    first: int
    end: int
    in_flight: int
    share: NotRequired[PlanShare]
    codec: NotRequired[Literal[
        "none", "bfloat16", "q8", "q6", "q4", "q3", "q2", "bfloat16+zstd", "q8+zstd", "q6+zstd",
        "q4+zstd", "q3+zstd", "q2+zstd",
    ]]
    memory_bytes: Count
    replica_bytes: Count
    memory: PlanMemory
    predicted_forward_seconds: float
    predicted_backward_seconds: float
    predicted_busy: float
    predicted_pull_seconds: NotRequired[float]
    predicted_push_seconds: NotRequired[float]
    pull_segments: NotRequired[Count]
    push_segments: NotRequired[Count]
    measured_forward_seconds: float | None
    measured_backward_seconds: float | None


class PlanLeftOut(TypedDict):
    device: DeviceId
    reason: Literal["slower", "no_gain", "no_memory", "stages_full", "unavailable"]
    step_seconds_with: float | None


class PlanCombination(TypedDict):
    """One combination of varied fields, and its plan."""

    micro_batches: int
    compression: Literal[
        "none", "bfloat16", "q8", "q6", "q4", "q3", "q2", "bfloat16+zstd", "q8+zstd", "q6+zstd",
        "q4+zstd", "q3+zstd", "q2+zstd", "auto",
    ]
    pipeline: Literal["sync", "async"]
    devices: int | None
    failure: str | None
    predicted_step_seconds: float | None
    optimal: bool
    gap: float
    bottleneck: PlanBottleneck
    stages: list[CombinationStage]


class WhatIfDevice(TypedDict):
    """An existing device, or a hypothetical one."""

    id: NotRequired[DeviceId]
    name: NotRequired[Name]
    like: NotRequired[DeviceId]
    speed: NotRequired[float]
    gflops: NotRequired[float]
    memory_bytes_per_second: NotRequired[float]
    memory_bytes: NotRequired[int]


class WhatIfLink(TypedDict):
    """A link that replaces the measured one, in both directions."""

    between: list[str]
    latency_seconds: NotRequired[float]
    bytes_per_second: float


class PlanVary(TypedDict):
    """Values that fields of the job take in turn, in all combinations."""

    micro_batches: NotRequired[list[int]]
    compression: NotRequired[list[Literal[
        "none", "bfloat16", "q8", "q6", "q4", "q3", "q2", "bfloat16+zstd", "q8+zstd", "q6+zstd",
        "q4+zstd", "q3+zstd", "q2+zstd", "auto",
    ]]]
    pipeline: NotRequired[list[Literal["sync", "async"]]]
    devices: NotRequired[list[int]]


class PredictionUnit(TypedDict):
    name: str
    forward_seconds: float
    forward_sd_seconds: float
    backward_seconds: float
    backward_sd_seconds: float
    update_seconds: float
    measured: bool


class Fault(TypedDict):
    pointer: str
    message: str


class ReplicaUnit(TypedDict):
    unit: int
    copies: list[ReplicaCopy]


class ReplicaLoss(TypedDict):
    """What follows if these devices are lost now."""

    devices: list[DeviceId]
    resume_version: Count
    steps_lost: Count
    can_continue: bool


class AssignmentStage(TypedDict):
    index: int
    count: int
    first: int
    end: int
    in_flight: int
    previous_in_flight: int
    strict_order: NotRequired[bool]
    tune: NotRequired[bool]


Source = TypedDict(
    "Source",
    {
        "unit": "int",
        "from": "Literal['seed', 'checkpoint', 'self', 'device', 'center']",
        "device": "NotRequired[str | None]",
        "url": "NotRequired[str | None]",
        "ticket": "NotRequired[str | None]",
        "public_key": "NotRequired[str | None]",
        "relay_ticket": "NotRequired[str | None]",
        "sha256": "NotRequired[str | None]",
        "size_bytes": "NotRequired[Count]",
    },
)


class AssignedStage(TypedDict):
    """A stage of a plan of servers and workers. `url` is absent where this device does not call
    the other."""

    peer: Peer
    first: int
    end: int
    share_first: int
    share_end: int


class Peer(TypedDict):
    """Another device of the plan."""

    device: DeviceId
    url: NotRequired[str | None]
    ticket: NotRequired[str | None]
    codec: NotRequired[str | None]
    public_key: NotRequired[str | None]
    relay_ticket: NotRequired[str | None]


class AssignmentDeadlines(TypedDict):
    step_ms: Count
    peer_ms: Count
    lease_ms: Count


class MixDuty(TypedDict):
    """The assignment of a group in a job of groups that train apart."""

    group: int
    generation: Count
    groups: int
    every: int
    passed: NotRequired[Count]
    probes: NotRequired[bool]
    holds: NotRequired[bool]
    slows: NotRequired[bool]
    rate_step: Count
    steps: int
    orders: NotRequired[list[MixOrder]]


class GroupMixes(TypedDict):
    """A group that trains apart from the others."""

    device: str | None
    samples: Count
    steps: Count
    every: Count
    slows: NotRequired[bool]
    mixes: Count
    missed_periods: NotRequired[Count]
    samples_per_second: float | None
    mix_seconds: NotRequired[float]
    averages: NotRequired[bool]
    loss: float | None
    distance: float | None
    gap_seconds: NotRequired[float]
    held_out: NotRequired[GroupTests | None]


class MixStatus(TypedDict):
    """The newest match of its kind; counter 0: none yet."""

    xid: MixXid
    state: Literal["none", "matched", "copied", "fetched", "applied", "expired", "rejected"]
    copied: NotRequired[bool]
    seconds: NotRequired[float]


class MixTests(TypedDict):
    """The newest average, evaluated on the samples that the device holds out."""

    samples: Count
    correct: Count
    loss_sum: float


class Round(TypedDict):
    version: Count
    state: Literal["none", "open", "committed", "abandoned", "paused"]


class PlanShare(TypedDict):
    first: NotRequired[int]
    end: NotRequired[int]


class PlanMemory(TypedDict):
    """The parts of memory_bytes. All are 0 in a plan of an earlier version."""

    parameters_bytes: Count
    gradients_bytes: Count
    optimizer_bytes: Count
    activations_bytes: Count
    workspace_bytes: Count
    borders_bytes: Count
    snapshots_bytes: Count
    replicas_bytes: Count


class PreviewGroup(TypedDict):
    """A group and the device that would train it."""

    group: int
    classes: list[int]
    width: float
    samples: Count
    flops_per_sample: float
    device: str | None
    name: str | None
    memory_bytes: Count
    begins_seconds: float
    seconds: float | None
    failure: str | None


class GossipPreviewGroup(TypedDict):
    """A group and the device that would train it."""

    device: str | None
    name: str
    samples: Count
    samples_per_second: float
    every: int
    slows: NotRequired[bool]
    given_bytes_per_second: float
    taken_bytes_per_second: float
    link_share: float | None


class JobTrain(TypedDict):
    """An uploaded data set, or one that devices offer."""

    name: NotRequired[Name]
    local: NotRequired[Name]
    form: NotRequired[str]
    classes: NotRequired[int]
    device: NotRequired[DeviceId]
    sha256: NotRequired[Sha256]


class JobTest(TypedDict):
    """An uploaded data set, or samples that devices hold out."""

    name: NotRequired[Name]
    holdout: NotRequired[float]
    classes: NotRequired[int]


class ViewShard(TypedDict):
    """Some samples of some classes, each once in an epoch."""

    index: int
    count: int
    seed: Count
    class_ranges: list[ClassRange]
    window: NotRequired[Count]
    critical: NotRequired[float]


class Joint(TypedDict):
    epochs: NotRequired[int]
    units: NotRequired[Literal["head", "all"] | list[str]]
    dataset: NotRequired[str | None]


class ServerPlace(TypedDict):
    """A device that keeps units of the model."""

    device: DeviceId
    end: int


class MixXid(TypedDict):
    """Identifies a match; no identifier is used twice."""

    life: Count
    counter: Count


class MixMember(TypedDict):
    """A copy of the state of a group."""

    group: int
    generation: Count
    version: NotRequired[Count]
    mixes: NotRequired[Count]
    weight: NotRequired[float]


class ModelOutput(TypedDict):
    height: int
    width: int
    channels: int


class CombinationStage(TypedDict):
    device: str | None
    name: str
    first: int
    end: int
    in_flight: int
    share: NotRequired[PlanShare]
    codec: Literal[
        "none", "bfloat16", "q8", "q6", "q4", "q3", "q2", "bfloat16+zstd", "q8+zstd", "q6+zstd",
        "q4+zstd", "q3+zstd", "q2+zstd",
    ]
    memory_bytes: Count
    predicted_busy: float


class ReplicaCopy(TypedDict):
    device: DeviceId
    version: Count
    generation: Count


class MixOrder(TypedDict):
    """A match of a group."""

    xid: MixXid
    kind: Literal["pair", "average", "adopt", "start", "stored"]
    averages: NotRequired[bool]
    alpha: float
    statistics_alpha: float
    rate_step: Count
    left_ms: Count
    sources: NotRequired[list[MixSource]]


class GroupTests(TypedDict):
    """An average, evaluated on the samples that one device holds out."""

    step: Count
    samples: Count
    test_loss: float
    test_accuracy: float


ClassRange = TypedDict(
    "ClassRange",
    {
        "class": "int",
        "first": "int",
        "count": "int",
    },
)


class MixSource(TypedDict):
    """A group whose copy is needed."""

    group: int
    generation: Count
    weight: NotRequired[float]
    job: JobId
    job_generation: int
    plan: PlanId
    peer: Peer
