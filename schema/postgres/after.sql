-- After the migrations, on PostgreSQL: room on the page for rows that change several times, and early vacuum of the rows
-- that change most.
ALTER TABLE buckets SET (fillfactor = 25, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000);
ALTER TABLE payments SET (fillfactor = 70);
ALTER TABLE attempts SET (fillfactor = 70);
ALTER TABLE idempotency_keys SET (fillfactor = 60);
ALTER TABLE seller_balances SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000);
ALTER TABLE relay_cursors SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000);
