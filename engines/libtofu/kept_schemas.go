// Copyright 2026 The Holdfast authors
// SPDX-License-Identifier: Apache-2.0

// Schemas of providers, kept from one command to the next. This file is added to OpenTofu's package
// `internal/plugins`, whose NewLibrary calls keptSchemas instead of starting with no schemas: otherwise
// every command starts every provider once only to read its schema.
//
// As in Terraform, schemas are kept by the name of a provider, not by its version: whoever calls the
// library uses one version of a provider in one process. Each process of a provider that must be asked for
// its schema is asked nevertheless.

package plugins

import (
	"sync"

	"github.com/opentofu/opentofu/internal/addrs"
)

var (
	keptLock sync.Mutex
	kept     = map[addrs.Provider]*providerSchemaEntry{}
)

func keptSchemas(factories ProviderFactories) map[addrs.Provider]*providerSchemaEntry {
	keptLock.Lock()
	defer keptLock.Unlock()
	schemas := make(map[addrs.Provider]*providerSchemaEntry, len(factories))
	for addr := range factories {
		entry := kept[addr]
		if entry == nil || entry.failed() {
			entry = &providerSchemaEntry{}
			kept[addr] = entry
		}
		schemas[addr] = entry
	}
	return schemas
}

// failed says whether a provider did not answer, or not yet: the next command asks it again.
func (e *providerSchemaEntry) failed() bool {
	if !e.TryLock() {
		return true
	}
	defer e.Unlock()
	return e.diags.HasErrors()
}
