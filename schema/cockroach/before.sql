-- Before the migrations, on CockroachDB: the role that services use. How it logs in is the deployment's business.
CREATE ROLE IF NOT EXISTS paygrid_app;
