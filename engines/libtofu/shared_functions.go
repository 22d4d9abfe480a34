// Copyright 2026 The Holdfast authors
// SPDX-License-Identifier: Apache-2.0

// Tables of functions, shared by all scopes that have the same ones. This file is added to OpenTofu's package
// `internal/lang`: otherwise every scope makes a table of its own, and every evaluation copies it, which takes
// a quarter of the time of a small stack.

package lang

import (
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/opentofu/opentofu/internal/addrs"
	"github.com/zclconf/go-cty/cty/function"
)

// All that a table depends on.
type tableKey struct {
	baseDir           string
	console, pureOnly bool
	planTimestamp     time.Time
}

const maxTables = 64 // Every plan has a time of its own.

var (
	tablesLock sync.Mutex
	tables     = map[tableKey]map[string]function.Function{}
)

// Functions replaces OpenTofu's method of this name, which is `newFunctions` now. Nothing may change the table.
func (s *Scope) Functions() map[string]function.Function {
	key := tableKey{s.BaseDir, s.ConsoleMode, s.PureOnly, s.PlanTimestamp}
	tablesLock.Lock()
	defer tablesLock.Unlock()
	table, ok := tables[key]
	if !ok {
		if len(tables) >= maxTables {
			clear(tables)
		}
		table = s.newFunctions()
		tables[key] = table
	}
	return table
}

// functionsToCopy returns what the evaluation must copy because it adds functions of providers. Otherwise the
// evaluation uses the shared table as it is.
func functionsToCopy(evaluation *hcl.EvalContext, s *Scope, refs []*addrs.Reference) map[string]function.Function {
	for _, ref := range refs {
		if _, ok := ref.Subject.(addrs.ProviderFunction); ok {
			return s.Functions()
		}
	}
	evaluation.Functions = s.Functions()
	return nil
}
