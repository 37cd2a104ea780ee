// The shop's checkout: prices carts and signs receipts. Profiled by the agent for Go: CPU, memory, goroutines, locks.
//
//	checkout PORT FLAMEGRID_URL POD VERSION
//
// POST /price takes {"items": [{"id", "cents", "count"}], "coupon", "country"} and answers with the receipt. Version
// 1.5.0 compiles the regular expression of coupons for every item: the comparison of both versions finds it.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"sync"

	"github.com/grafana/pyroscope-go"
)

type item struct {
	ID    int `json:"id"`
	Cents int `json:"cents"`
	Count int `json:"count"`
}

type cart struct {
	Items   []item `json:"items"`
	Coupon  string `json:"coupon"`
	Country string `json:"country"`
}

type line struct {
	ID    int    `json:"id"`
	Cents int    `json:"cents"`
	Tax   int    `json:"tax"`
	Text  string `json:"text"`
}

type receipt struct {
	Lines     []line `json:"lines"`
	Cents     int    `json:"cents"`
	Parcels   int    `json:"parcels"`
	Signature string `json:"signature"`
}

const couponPattern = `^(SAVE|GIFT|VIP)(\d{1,2})(-[A-Z]{2,4})?$`

var couponExpression = regexp.MustCompile(couponPattern)

// ledger keeps the last receipts, under one lock for all requests.
type ledger struct {
	mutex    sync.Mutex
	receipts []receipt
	totals   map[string]int
}

func (l *ledger) add(country string, r receipt) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.receipts = append(l.receipts, r)
	if len(l.receipts) > 2000 {
		l.receipts = append([]receipt(nil), l.receipts[1000:]...)
	}
	l.totals[country] += r.Cents
}

type checkout struct {
	version string
	rates   map[string][]rate
	ledger  ledger
}

type rate struct {
	above, permille int
}

func newCheckout(version string) *checkout {
	rates := map[string][]rate{}
	for i, country := range []string{"AT", "BE", "CH", "DE", "DK", "ES", "FR", "IT", "NL", "PL", "SE"} {
		for above := 0; above < 400; above++ {
			rates[country] = append(rates[country], rate{above * 25, 190 + (i*7+above)%60})
		}
	}
	return &checkout{version: version, rates: rates, ledger: ledger{totals: map[string]int{}}}
}

// taxFor looks for the rate from the highest step down, as the tax office publishes them.
func (c *checkout) taxFor(country string, cents int) int {
	steps := c.rates[country]
	for i := len(steps) - 1; i >= 0; i-- {
		if cents >= steps[i].above {
			return cents * steps[i].permille / 1000
		}
	}
	return 0
}

func (c *checkout) discount(coupon string) int {
	expression := couponExpression
	if c.version == "1.5.0" {
		expression = regexp.MustCompile(couponPattern)
	}
	found := expression.FindStringSubmatch(coupon)
	if found == nil {
		return 0
	}
	return len(found[1]) + len(found[2])
}

func (c *checkout) priceItem(in item, coupon, country string) line {
	cents := in.Cents * in.Count
	cents -= cents * c.discount(coupon) / 100
	tax := c.taxFor(country, cents)
	return line{in.ID, cents, tax, describe(in.ID, cents, tax)}
}

func describe(id, cents, tax int) string {
	var text strings.Builder
	for _, part := range []int{id, cents, tax} {
		text.WriteString(hex.EncodeToString([]byte{byte(part >> 16), byte(part >> 8), byte(part)}))
	}
	return strings.ToUpper(text.String())
}

// packParcels counts the parcels of an order: it fills one after another as well as it can be filled.
func packParcels(lines []line) int {
	const capacity = 5000
	parcels := 0
	for rest := append([]line(nil), lines...); len(rest) > 0; parcels++ {
		var left []line
		for i, taken := range fillParcel(rest[:min(len(rest), 60)], capacity) {
			if !taken {
				left = append(left, rest[i])
			}
		}
		rest = append(left, rest[min(len(rest), 60):]...)
	}
	return parcels
}

// fillParcel solves the knapsack problem for sizes that follow from prices; at least one line always fits.
func fillParcel(lines []line, capacity int) []bool {
	best := make([]int32, capacity+1)
	taken := make([]bool, len(lines))
	for _, l := range lines {
		size := 500 + l.Cents%2000
		for room := capacity; room >= size; room-- {
			if value := best[room-size] + int32(size); value > best[room] {
				best[room] = value
			}
		}
	}
	for i, room := 0, capacity; i < len(lines); i++ {
		if size := 500 + lines[i].Cents%2000; size <= room {
			taken[i], room = true, room-size
		}
	}
	return taken
}

func sign(lines []line) string {
	mac := hmac.New(sha256.New, []byte("demo"))
	for _, l := range lines {
		for round := 0; round < 64; round++ {
			mac.Write([]byte(l.Text))
		}
	}
	return hex.EncodeToString(mac.Sum(nil))
}

func (c *checkout) price(in cart) receipt {
	var r receipt
	for _, i := range in.Items {
		l := c.priceItem(i, in.Coupon, in.Country)
		r.Lines = append(r.Lines, l)
		r.Cents += l.Cents + l.Tax
	}
	sort.Slice(r.Lines, func(a, b int) bool { return r.Lines[a].Text < r.Lines[b].Text })
	r.Parcels = packParcels(r.Lines)
	r.Signature = sign(r.Lines)
	c.ledger.add(in.Country, r)
	return r
}

func (c *checkout) servePrice(w http.ResponseWriter, req *http.Request) {
	var in cart
	if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(c.price(in)); err != nil {
		log.Print(err)
	}
}

func main() {
	port, url, pod, version := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	runtime.SetMutexProfileFraction(5)
	runtime.SetBlockProfileRate(100000)
	_, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: "checkout",
		ServerAddress:   url,
		Tags:            map[string]string{"pod": pod, "version": version, "env": "demo"},
		ProfileTypes: []pyroscope.ProfileType{pyroscope.ProfileCPU, pyroscope.ProfileAllocObjects, pyroscope.ProfileAllocSpace,
			pyroscope.ProfileInuseObjects, pyroscope.ProfileInuseSpace, pyroscope.ProfileGoroutines,
			pyroscope.ProfileMutexCount, pyroscope.ProfileMutexDuration},
	})
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/price", newCheckout(version).servePrice)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil))
}
