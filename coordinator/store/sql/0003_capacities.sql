-- What is known of the speed of devices and links. Written with the telemetry, so a crash may lose
-- the last minute. Numbers of a device are an array of doubles: its level, rates and overhead, then
-- its two regressions. Device "" stands for all devices together.
CREATE TABLE capacities (
    device TEXT PRIMARY KEY NOT NULL, wall_ms INTEGER NOT NULL, numbers BLOB NOT NULL
) STRICT;

-- The newest time of a unit of a shape, relative to the level of the device.
CREATE TABLE unit_times (
    device TEXT NOT NULL, shape INTEGER NOT NULL, wall_ms INTEGER NOT NULL,
    forward_seconds REAL NOT NULL, backward_seconds REAL NOT NULL,
    PRIMARY KEY (device, shape)
) STRICT, WITHOUT ROWID;

-- Sums over the transfers of a direction; kind as in the heartbeat: 0 tensor, 1 replica, 2 fetch.
CREATE TABLE link_times (
    sender TEXT NOT NULL, receiver TEXT NOT NULL, kind INTEGER NOT NULL, codec TEXT NOT NULL,
    wall_ms INTEGER NOT NULL,
    count REAL NOT NULL, seconds REAL NOT NULL, bytes REAL NOT NULL,
    bytes_squared REAL NOT NULL, bytes_seconds REAL NOT NULL,
    PRIMARY KEY (sender, receiver, kind, codec)
) STRICT, WITHOUT ROWID;

-- The history: one row for each minute of a device and unit, and the first of each hour for longer.
CREATE TABLE measurements_by_minute (
    device TEXT NOT NULL, wall_ms INTEGER NOT NULL, job TEXT NOT NULL, unit INTEGER NOT NULL,
    forward_seconds REAL NOT NULL, backward_seconds REAL NOT NULL,
    PRIMARY KEY (device, wall_ms, job, unit)
) STRICT, WITHOUT ROWID;

CREATE TABLE measurements_by_hour (
    device TEXT NOT NULL, wall_ms INTEGER NOT NULL, job TEXT NOT NULL, unit INTEGER NOT NULL,
    forward_seconds REAL NOT NULL, backward_seconds REAL NOT NULL,
    PRIMARY KEY (device, wall_ms, job, unit)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER devices_deleted AFTER DELETE ON devices BEGIN
    DELETE FROM capacities WHERE device = OLD.id;
    DELETE FROM unit_times WHERE device = OLD.id;
    DELETE FROM link_times WHERE sender = OLD.id OR receiver = OLD.id;
    DELETE FROM measurements_by_minute WHERE device = OLD.id;
    DELETE FROM measurements_by_hour WHERE device = OLD.id;
END;
