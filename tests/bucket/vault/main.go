// vault serves HashiCorp Vault's core, HTTP interface, tokens and policies with its transit engine, in memory: what
// `vault server` has of them, without the storages, log-in methods and engines that make that program ten times as large.
// It begins uninitialized, as a server does: tests initialize and unseal it through the interface.
//
//	vault ADDRESS CERTIFICATE KEY
package main

import (
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/vault/builtin/logical/transit"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

// transitOnly is the registry of plugins: the transit engine.
type transitOnly struct{}

func (transitOnly) Contains(name string, kind consts.PluginType) bool {
	return name == "transit" && kind == consts.PluginTypeSecrets
}

func (one transitOnly) Get(name string, kind consts.PluginType) (func() (interface{}, error), bool) {
	return func() (interface{}, error) { return logical.Factory(transit.Factory), nil }, one.Contains(name, kind)
}

func (transitOnly) Keys(kind consts.PluginType) []string {
	if kind == consts.PluginTypeSecrets {
		return []string{"transit"}
	}
	return nil
}

func (one transitOnly) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, one.Contains(name, kind)
}

func (transitOnly) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }

func main() {
	address, certificate, key := os.Args[1], os.Args[2], os.Args[3]
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr})
	storage, err := inmem.NewInmem(nil, logger)
	if err != nil {
		log.Fatal(err)
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical:        storage,
		StorageType:     "inmem",
		LogicalBackends: map[string]logical.Factory{"transit": transit.Factory},
		BuiltinRegistry: transitOnly{},
		DisableMlock:    true,
		Logger:          logger,
		DefaultLeaseTTL: time.Hour,
		MaxLeaseTTL:     24 * time.Hour,
	})
	if err != nil {
		log.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		log.Fatal(err)
	}
	plain, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	listener := tls.NewListener(plain, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	handler := vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core, ListenerConfig: &configutil.Listener{Address: address}})
	log.Fatal(http.Serve(listener, handler))
}
