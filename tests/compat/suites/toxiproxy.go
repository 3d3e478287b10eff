// Package toxiproxy stands in for the client of toxiproxy in sarama's tests.
//
// They want a proxy before each broker that can be switched off and slowed down. Here it runs in
// the process of the tests: it listens at the first of KAFKA_PEERS and brings what comes to the
// address that TOXIPROXY_ADDR names.
package toxiproxy

import (
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// Name of the one proxy, as the tests call it.
const Name = "kafka1"

// Attributes of a toxic; only "latency", in milliseconds, is known.
type Attributes map[string]interface{}

// Toxic has no properties that the tests look at.
type Toxic struct{}

// Client holds the one proxy.
type Client struct {
	proxy *Proxy
}

// Proxy takes effect as it was last saved.
type Proxy struct {
	Enabled bool

	lock     sync.Mutex
	isOpen   bool
	latency  time.Duration
	upstream string
}

// NewClient starts the proxy.
func NewClient(upstream string) *Client {
	proxy := &Proxy{Enabled: true, isOpen: true, upstream: upstream}
	listener, err := net.Listen("tcp", strings.Split(os.Getenv("KAFKA_PEERS"), ",")[0])
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			go proxy.serve(client)
		}
	}()
	return &Client{proxy}
}

// Proxies are told by name.
func (client *Client) Proxies() (map[string]*Proxy, error) {
	return map[string]*Proxy{Name: client.proxy}, nil
}

// ResetState opens the proxy and takes its latency away.
func (client *Client) ResetState() error {
	client.proxy.Enabled = true
	client.proxy.setLatency(0)
	return client.proxy.Save()
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
