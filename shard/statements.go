package shard

// Statements returns every statement of this package by its name. One test parses each with CockroachDB's grammar, another
// prepares each against a migrated database and refuses plans that scan a table.
func Statements() map[string]string {
	return map[string]string{
		"begin": sqlBegin, "apply": sqlApply, "lock": sqlLock, "find openings": sqlFindOpenings, "find changes": sqlFindChanges, "find notices": sqlFindNotices,
		"owned": sqlOwned, "payment": sqlPayment, "payment here": sqlPaymentHere, "refunds": sqlRefunds, "key": sqlKey,
		"owned of attempts": sqlOwnedOf, "payments of attempts": sqlPaymentsOf, "attempts of attempts": sqlAttemptsOf,
		"refunds of attempts": sqlRefundsOf,
		"payments by order":   sqlPaymentsByOrder, "entries": sqlEntries, "events": sqlEvents,
		"seller balance": sqlSellerBalance, "house balance": sqlHouseBalance, "roll up": sqlRollUp,
		"lease": sqlLease, "expired": sqlExpired, "place": sqlPlace,
		"claim attempts": sqlClaimAttempts, "reschedule": sqlReschedule, "pending attempts": sqlPendingAttempts, "pending count": sqlPendingCount,
		"attempts by reference": sqlAttemptByRef, "payment of attempt": sqlPaymentOfAttempt,
		"put inbox": sqlPutInbox, "claim inbox": sqlClaimInbox, "close inbox": sqlCloseInbox, "inbox": sqlInbox,
		"inbox lag": sqlInboxLag, "inbox of attempts": sqlInboxOfAttempts,
		"request approval": sqlRequest, "decide approval": sqlDecide, "approval": sqlApproval, "open approvals": sqlOpenApprovals,
		"set switch": sqlSetSwitch, "switches": sqlSwitches,
		"audit bucket rows": sqlAuditBuckets, "audit payments": sqlAuditPayments, "audit attempts": sqlAuditAttempts,
		"audit refunds": sqlAuditRefunds, "audit keys": sqlAuditKeys, "audit entries": sqlAuditEntries,
		"audit events": sqlAuditEvents, "audit orphans": sqlAuditOrphans, "audit sellers": sqlAuditSellers,
		"audit rollups": sqlAuditRollups,
		"relay unsent":  sqlRelayUnsent, "relay heads": sqlRelayHeads, "relay cursors": sqlRelayCursors, "relay events": sqlRelayEvents,
		"relay advance": sqlRelayAdvance, "relay prune": sqlRelayPrune, "relay lag": sqlRelayLag, "relay hold": sqlRelayHold, "relay due": sqlRelayDue,
		"parked": sqlParked, "held events": sqlHeldEvents, "redrive": sqlRedrive,
	}
}
