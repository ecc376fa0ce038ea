package shard_test

import (
	"os"
	"testing"

	"paygrid/shard/shardtest"
)

var databases shardtest.Databases

func TestMain(m *testing.M) { os.Exit(databases.Main(m)) }
