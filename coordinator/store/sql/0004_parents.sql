-- Jobs that consist of groups: a row for each beside its row in jobs, with the same id. The jobs of
-- their groups name them as parent, and go with them.
CREATE TABLE parents (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;
CREATE INDEX parents_by_parent ON parents (parent, id);

CREATE TRIGGER parents_deleted AFTER DELETE ON jobs BEGIN
    DELETE FROM parents WHERE id = OLD.id;
    DELETE FROM jobs WHERE parent = OLD.id;
END;
