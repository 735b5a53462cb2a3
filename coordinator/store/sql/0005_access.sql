-- Bearer tokens, by id; their secrets are stored as SHA-256. A row `tokens` in meta says that
-- requests need one.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_parent ON tokens (parent, id);

-- Changes that requests made, by id (which sorts by time). The oldest rows are dropped.
CREATE TABLE audit (
    id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL, revision INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_by_parent ON audit (parent, id);
