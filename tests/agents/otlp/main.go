// Burns CPU as the drivers of the agents do, and sends what runtime/pprof saw as OTLP profiles, with the
// exporters of the OpenTelemetry Collector.
//
//	otlp http|json|grpc BASE_URL SECONDS SERVICE
//
// The last line of standard output is JSON with the CPU seconds really spent in each function. What an
// exporter complains of goes to standard error.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math/rand"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"syscall"
	"time"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/exporter/xexporter"
	"go.uber.org/zap"
)

const (
	uploadEvery  = 5 * time.Second
	calibration  = 20_000_000
	sliceMin     = 2.0 // CPU milliseconds
	sliceSpread  = 16.0
	alphaPerBeta = 3
)

var sinkhole uint64

//go:noinline
func burn_alpha(n uint64) {
	x := sinkhole
	for ; n > 0; n-- {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sinkhole = x
}

//go:noinline
func burn_beta(n uint64) {
	x := sinkhole
	for ; n > 0; n-- {
		x = x*2862933555777941757 + 3037000493
	}
	sinkhole = x
}

func threadSeconds() float64 {
	const rusageThread = 1
	var usage syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// burner keeps the CPU time of its two functions at 3 : 1, in slices that no sampler beats with.
type burner struct {
	perMillisecond float64
	random         *rand.Rand
	alpha, beta    float64 // seconds
}

func newBurner() *burner {
	start := threadSeconds()
	burn_alpha(calibration)
	return &burner{
		perMillisecond: calibration / 1000 / (threadSeconds() - start),
		random:         rand.New(rand.NewSource(1)),
	}
}

func (b *burner) slice() {
	n := uint64(b.perMillisecond * (sliceMin + sliceSpread*b.random.Float64()))
	name, burn, spent := "alpha", burn_alpha, &b.alpha
	if b.alpha > alphaPerBeta*b.beta {
		name, burn, spent = "beta", burn_beta, &b.beta
	}
	start := threadSeconds()
	pprof.Do(context.Background(), pprof.Labels("burn", name), func(context.Context) { burn(n) })
	*spent += threadSeconds() - start
}

// profileUntil is what the runtime saw of the burning.
func (b *burner) profileUntil(end time.Time) (*profile.Profile, error) {
	var seen bytes.Buffer
	if err := pprof.StartCPUProfile(&seen); err != nil {
		return nil, err
	}
	for time.Now().Before(end) {
		b.slice()
	}
	pprof.StopCPUProfile()
	return profile.Parse(&seen)
}

// authorize sends the token of FG_BEARER, if there is one.
func authorize(headers *configopaque.MapList) {
	if token := os.Getenv("FG_BEARER"); token != "" {
		headers.Set("Authorization", configopaque.String("Bearer "+token))
	}
}

// newExporter has no queue: sending fails where it is asked for.
func newExporter(ctx context.Context, protocol, url string) (xexporter.Profiles, error) {
	var factory exporter.Factory
	var config component.Config
	switch protocol {
	case "grpc":
		factory = otlpexporter.NewFactory()
		grpc := factory.CreateDefaultConfig().(*otlpexporter.Config)
		grpc.ClientConfig.Endpoint = url
		authorize(&grpc.ClientConfig.Headers)
		grpc.ClientConfig.TLS.Insecure = true
		grpc.QueueConfig = configoptional.None[exporterhelper.QueueBatchConfig]()
		grpc.RetryConfig.Enabled = false
		config = grpc
	case "http", "json":
		factory = otlphttpexporter.NewFactory()
		http := factory.CreateDefaultConfig().(*otlphttpexporter.Config)
		http.ClientConfig.Endpoint = url
		authorize(&http.ClientConfig.Headers)
		http.QueueConfig = configoptional.None[exporterhelper.QueueBatchConfig]()
		http.RetryConfig.Enabled = false
		if protocol == "json" {
			http.Encoding = otlphttpexporter.EncodingJSON
		}
		config = http
	default:
		return nil, fmt.Errorf("no protocol %q", protocol)
	}
	settings := exporter.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	logger, err := zap.NewDevelopment(zap.IncreaseLevel(zap.WarnLevel))
	if err != nil {
		return nil, err
	}
	settings.Logger = logger
	return factory.(xexporter.Factory).CreateProfiles(ctx, settings, config)
}

func run(protocol, url string, length time.Duration, service string) error {
	ctx := context.Background()
	sender, err := newExporter(ctx, protocol, url)
	if err != nil {
		return err
	}
	if err := sender.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	burner := newBurner()
	for end := time.Now().Add(length); time.Now().Before(end); {
		seen, err := burner.profileUntil(earlier(end, time.Now().Add(uploadEvery)))
		if err != nil {
			return err
		}
		if err := sender.ConsumeProfiles(ctx, translate(seen, service)); err != nil {
			return err
		}
	}
	fmt.Printf("{\"service\":%q,\"burn_alpha\":%.3f,\"burn_beta\":%.3f}\n", service, burner.alpha, burner.beta)
	return sender.Shutdown(ctx)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: otlp http|json|grpc BASE_URL SECONDS SERVICE")
	}
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		log.Fatal(err)
	}
	runtime.LockOSThread() // so that the thread's time is the burning's
	if err := run(os.Args[1], os.Args[2], time.Duration(seconds*float64(time.Second)), os.Args[4]); err != nil {
		log.Fatal(err)
	}
}
