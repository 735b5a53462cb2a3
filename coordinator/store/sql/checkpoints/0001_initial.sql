-- checkpoints.db: blobs addressed by their sha256, in rows of 1 MiB. sha256 is NULL until the last
-- row of a blob is there, and again from the moment it is deleted: such rows are nothing but space
-- to reclaim, unless an upload of this process still owns them.
CREATE TABLE blobs (
    id INTEGER PRIMARY KEY, sha256 TEXT UNIQUE, size INTEGER NOT NULL
) STRICT;

-- id = blob id * 2^20 + index of the chunk: one tree, a blob's rows beside each other, no second
-- index.
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY, data BLOB NOT NULL
) STRICT;
