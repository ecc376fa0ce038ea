-- +goose NO TRANSACTION
-- +goose Up

-- Least rights: the ledger can only be appended to.
GRANT SELECT, INSERT ON journal_entries, postings TO paygrid_app;
GRANT SELECT ON ledger_lines TO paygrid_app;
GRANT SELECT, INSERT, UPDATE ON payments, attempts, refunds, idempotency_keys TO paygrid_app;
GRANT SELECT, INSERT, UPDATE ON webhook_inbox, approvals, psp_switches TO paygrid_app;
GRANT SELECT, INSERT, UPDATE ON seller_balances, rollups, leases TO paygrid_app;
GRANT SELECT, INSERT ON outbox TO paygrid_app;
GRANT SELECT, UPDATE ON buckets TO paygrid_app;
