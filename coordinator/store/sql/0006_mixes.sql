-- The log of a job whose groups train apart: a row for each move of a group. It goes with the job.
CREATE TABLE mixes (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX mixes_by_parent ON mixes (parent, id);

CREATE TRIGGER mixes_deleted AFTER DELETE ON jobs BEGIN
    DELETE FROM mixes WHERE parent = OLD.id;
END;
