-- state.db: the durable objects of the coordinator, one table a kind, and telemetry. The document
-- (JSON) is the object; id, parent, revision and created_ms are what the store itself has to know.
-- There are no foreign keys between kinds: the core decides what belongs together and when it may
-- go, and a key that refuses a commit would only stop the coordinator. What no other room could
-- delete (telemetry, the history of plans) goes with its job by a trigger.

-- Large or few: tables with a rowid, so that documents do not sit in the key's tree.
CREATE TABLE devices (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX devices_by_parent ON devices (parent, id);

CREATE TABLE jobs (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX jobs_by_parent ON jobs (parent, id);

CREATE TABLE plans (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX plans_by_parent ON plans (parent, id);

CREATE TABLE datasets (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX datasets_by_parent ON datasets (parent, id);

CREATE TABLE models (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX models_by_parent ON models (parent, id);

CREATE TABLE checkpoints (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX checkpoints_by_parent ON checkpoints (parent, id);

CREATE TABLE descriptions (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX descriptions_by_parent ON descriptions (parent, id);

CREATE TABLE replays (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX replays_by_parent ON replays (parent, id);

-- Small and many: the row lives in the tree of its key.
CREATE TABLE center_units (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX center_units_by_parent ON center_units (parent, id);

CREATE TABLE events (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX events_by_parent ON events (parent, id);

CREATE TABLE meta (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX meta_by_parent ON meta (parent, id);

-- value is NULL for "not a number", which SQLite cannot hold.
CREATE TABLE metrics (
    job TEXT NOT NULL, name TEXT NOT NULL, step INTEGER NOT NULL, value REAL,
    PRIMARY KEY (job, name, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX metrics_by_step ON metrics (job, step, name);

-- id counts up; the oldest rows are dropped at every flush.
CREATE TABLE measurements (
    id INTEGER PRIMARY KEY, wall_ms INTEGER NOT NULL, device TEXT NOT NULL, job TEXT NOT NULL,
    unit INTEGER NOT NULL,
    forward_seconds REAL, backward_seconds REAL
) STRICT;

CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
    DELETE FROM plans WHERE parent = OLD.id;
    DELETE FROM metrics WHERE job = OLD.id;
END;
