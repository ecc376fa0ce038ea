-- After the migrations, on CockroachDB: queue-like tables keep little history, so that scans do not wade through it.
ALTER TABLE buckets CONFIGURE ZONE USING gc.ttlseconds = 3600;
ALTER TABLE leases CONFIGURE ZONE USING gc.ttlseconds = 3600;
ALTER TABLE relay_cursors CONFIGURE ZONE USING gc.ttlseconds = 3600;
