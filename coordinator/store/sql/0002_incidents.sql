-- One failure of a job each, by id (which sorts by time) and by job. Rows of the version before
-- stay as they are: what is new in jobs, plans and devices has a default.
CREATE TABLE incidents (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX incidents_by_parent ON incidents (parent, id);

-- Nothing was ever written to it: what devices measure comes with their reports and is kept in the
-- plans.
DROP TABLE measurements;

DROP TRIGGER jobs_deleted;
CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
    DELETE FROM plans WHERE parent = OLD.id;
    DELETE FROM incidents WHERE parent = OLD.id;
    DELETE FROM metrics WHERE job = OLD.id;
END;
