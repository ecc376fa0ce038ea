-- +goose NO TRANSACTION
-- +goose Up

-- An attempt is found by the PSP's reference only once it has one: most rows are written without, twice per payment.
CREATE INDEX IF NOT EXISTS attempts_reference ON attempts (psp, psp_ref) WHERE psp_ref <> '';
DROP INDEX IF EXISTS attempts_psp_ref;
