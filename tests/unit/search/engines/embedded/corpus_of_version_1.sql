-- The tables of an embedded store's corpus in version 1.
CREATE TABLE chorale_document ( namespace_id INTEGER NOT NULL, document_id TEXT NOT NULL, sequence BIGINT NOT NULL, ended BIGINT, source TEXT NOT NULL, title TEXT NOT NULL, metadata JSON NOT NULL, content_hash TEXT NOT NULL, near_duplicate_group TEXT, revision TEXT NOT NULL, PRIMARY KEY (namespace_id, document_id, sequence) );
CREATE INDEX chorale_document_ended ON chorale_document (namespace_id, ended);
CREATE INDEX chorale_document_sequence ON chorale_document (namespace_id, sequence, ended);
CREATE INDEX chorale_document_source ON chorale_document (namespace_id, source);
CREATE TABLE chorale_generation ( name TEXT NOT NULL, generation BIGINT NOT NULL, PRIMARY KEY (name) );
CREATE TABLE chorale_namespace ( namespace_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, manifest JSON NOT NULL, sequence BIGINT NOT NULL, visible BIGINT NOT NULL, lexical TEXT NOT NULL, UNIQUE (name) );
CREATE TABLE chorale_passage ( rid INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, namespace_id INTEGER NOT NULL, passage_id TEXT NOT NULL, document_id TEXT NOT NULL, sequence BIGINT NOT NULL, ended BIGINT, position INTEGER NOT NULL, heading TEXT NOT NULL, text TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL, vector BLOB );
CREATE INDEX chorale_passage_document ON chorale_passage (namespace_id, document_id);
CREATE INDEX chorale_passage_ended ON chorale_passage (namespace_id, ended);
CREATE INDEX chorale_passage_name ON chorale_passage (namespace_id, passage_id);
CREATE INDEX chorale_passage_sequence ON chorale_passage (namespace_id, sequence, ended);
CREATE TABLE chorale_near_duplicate_band ( namespace_id INTEGER NOT NULL, band BIGINT NOT NULL, group_id INTEGER NOT NULL, PRIMARY KEY (namespace_id, band, group_id) ) WITHOUT ROWID;
CREATE TABLE chorale_near_duplicate_group ( namespace_id INTEGER NOT NULL, group_id INTEGER NOT NULL, name TEXT NOT NULL, signature BLOB NOT NULL, members INTEGER NOT NULL, PRIMARY KEY (namespace_id, group_id), UNIQUE (namespace_id, name) );
CREATE TABLE chorale_near_duplicate_member ( namespace_id INTEGER NOT NULL, document_id TEXT NOT NULL, group_id INTEGER NOT NULL, PRIMARY KEY (namespace_id, document_id) ) WITHOUT ROWID;
CREATE TABLE chorale_near_duplicates ( namespace_id INTEGER NOT NULL, settings TEXT NOT NULL, PRIMARY KEY (namespace_id) );
PRAGMA user_version = 1;
