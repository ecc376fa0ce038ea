package localdb

import (
	"os"
	"testing"
)

var db Shared

func TestMain(m *testing.M) { os.Exit(db.Main(m)) }

func TestEngineAnswers(t *testing.T) {
	engine := db.Engine(t)
	if err := engine.CreateDatabase(t.Context(), "shard_0"); err != nil {
		t.Fatal(err)
	}
}
