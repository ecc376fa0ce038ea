package shard

// Waiting tells how many calls wait in the lanes, not yet in a statement.
func (c *Cluster) Waiting() int {
	n := 0
	for _, s := range c.all() {
		n += s.lanes.length()
	}
	return n
}

// PrepareSession makes a connection what those of the pools are.
var PrepareSession = prepareSession

// PutInboxSQL is the statement that stores notices.
const PutInboxSQL = sqlPutInbox
