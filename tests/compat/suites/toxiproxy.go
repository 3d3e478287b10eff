// Package toxiproxy stands in for the client of toxiproxy in sarama's tests.
//
// They want a proxy before each broker that can be switched off and slowed down. Here they run in
// the process of the tests: each listens at one of KAFKA_PEERS and brings what comes to the address
// at the same place in TOXIPROXY_ADDR.
package toxiproxy

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// Name of the first proxy, as the tests call it; the others are counted on.
const Name = "kafka1"

// Attributes of a toxic; only "latency", in milliseconds, is known.
type Attributes map[string]interface{}

// Toxic has no properties that the tests look at.
type Toxic struct{}

// Client holds the proxies.
type Client struct {
	proxies map[string]*Proxy
}

// Proxy takes effect as it was last saved.
type Proxy struct {
	Enabled bool

	lock     sync.Mutex
	isOpen   bool
	latency  time.Duration
	upstream string
}

// NewClient starts the proxies.
func NewClient(upstreams string) *Client {
	client := &Client{map[string]*Proxy{}}
	peers := strings.Split(os.Getenv("KAFKA_PEERS"), ",")
	for index, upstream := range strings.Split(upstreams, ",") {
		proxy := &Proxy{Enabled: true, isOpen: true, upstream: upstream}
		client.proxies[fmt.Sprintf("kafka%d", index+1)] = proxy
		listener, err := net.Listen("tcp", peers[index])
		if err != nil {
			panic(err)
		}
		go proxy.accept(listener)
	}
	return client
}

// Proxies are told by name.
func (client *Client) Proxies() (map[string]*Proxy, error) {
	return client.proxies, nil
}

// ResetState opens the proxies and takes their latency away.
func (client *Client) ResetState() error {
	for _, proxy := range client.proxies {
		proxy.Enabled = true
		proxy.setLatency(0)
		proxy.Save()
	}
	return nil
}

// AddToxic slows down what comes from the broker.
func (proxy *Proxy) AddToxic(_, kind, _ string, _ float32, with Attributes) (*Toxic, error) {
	if kind != "latency" {
		panic("not a toxic known here: " + kind)
	}
	proxy.setLatency(time.Duration(with["latency"].(int)) * time.Millisecond)
	return &Toxic{}, nil
}

// Save opens the proxy for new connections, or shuts it.
func (proxy *Proxy) Save() error {
	proxy.lock.Lock()
	defer proxy.lock.Unlock()
	proxy.isOpen = proxy.Enabled
	return nil
}

func (proxy *Proxy) setLatency(latency time.Duration) {
	proxy.lock.Lock()
	defer proxy.lock.Unlock()
	proxy.latency = latency
}

func (proxy *Proxy) state() (bool, time.Duration) {
	proxy.lock.Lock()
	defer proxy.lock.Unlock()
	return proxy.isOpen, proxy.latency
}

func (proxy *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go proxy.serve(client)
	}
}

func (proxy *Proxy) serve(client net.Conn) {
	defer client.Close()
	if isOpen, _ := proxy.state(); !isOpen {
		return
	}
	broker, err := net.Dial("tcp", proxy.upstream)
	if err != nil {
		return
	}
	defer broker.Close()
	go func() {
		defer broker.Close()
		io.Copy(broker, client)
	}()
	piece := make([]byte, 64*1024)
	for {
		size, err := broker.Read(piece)
		if err != nil {
			return
		}
		_, latency := proxy.state()
		time.Sleep(latency)
		if _, err := client.Write(piece[:size]); err != nil {
			return
		}
	}
}
