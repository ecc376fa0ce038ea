-- Before the migrations, on PostgreSQL: the role that services use. How it logs in is the deployment's business.
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = 'paygrid_app') THEN
        CREATE ROLE paygrid_app NOLOGIN;
    END IF;
END
$$;
