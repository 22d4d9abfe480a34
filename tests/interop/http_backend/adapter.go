// Added to the tests of the http backend of Terraform and OpenTofu: their handlers pass every request on to
// the server at HOLDFAST_URL, each to a state of its own. HANDLER is the type of their handlers.
package http

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

var forwarded struct {
	sync.Mutex
	states map[any]string
}

func send(method, path, query string, body []byte, header http.Header) *http.Response {
	request, err := http.NewRequest(method, os.Getenv("HOLDFAST_URL")+path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.URL.RawQuery = query
	request.Header = header.Clone()
	request.Header.Set("Authorization", "Bearer "+os.Getenv("HOLDFAST_TOKEN"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	return response
}

func prepare(method, path string, body []byte) {
	sum := md5.Sum(body)
	header := http.Header{"Content-Md5": {base64.StdEncoding.EncodeToString(sum[:])}}
	header.Set("Content-Type", "application/json")
	response := send(method, path, "", body, header)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		panic(fmt.Sprintf("%s %s: %s: %s", method, path, response.Status, text))
	}
}

// pathOf is the address of the state of one handler. Before its first request the state gets what the test
// gave the handler. Most of the tests write without a lock.
func pathOf(handler any, begin func(path string)) string {
	forwarded.Lock()
	defer forwarded.Unlock()
	if path, ok := forwarded.states[handler]; ok {
		return path
	}
	if forwarded.states == nil {
		forwarded.states = map[any]string{}
	}
	name := fmt.Sprintf("http-backend/%d", len(forwarded.states))
	settings, _ := json.Marshal(map[string]any{"name": name, "unlocked_writes": true})
	prepare("POST", "/api/v1/states/settings", settings)
	begin("/state/" + name)
	forwarded.states[handler] = "/state/" + name
	return forwarded.states[handler]
}

func forward(w http.ResponseWriter, r *http.Request, path string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	response := send(r.Method, path, r.URL.RawQuery, body, r.Header)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		panic(err)
	}
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	w.Write(answer)
}

func (h *HANDLER) Handle(w http.ResponseWriter, r *http.Request) {
	forward(w, r, pathOf(h, func(path string) {
		if !h.Locked {
			return
		}
		document, _ := json.Marshal(h)
		var given struct{ LockInfo map[string]any }
		if json.Unmarshal(document, &given) != nil || given.LockInfo == nil {
			panic("the test did not say who holds the lock")
		}
		given.LockInfo["ID"] = "held-by-the-test"
		info, _ := json.Marshal(given.LockInfo)
		prepare("LOCK", path, info)
	}))
}

func (h *HANDLER) HandleWebDAV(w http.ResponseWriter, r *http.Request) {
	h.Handle(w, r)
}

func (h *httpServer) handleState(w http.ResponseWriter, r *http.Request) {
	if callback := h.httpServerCallback; callback != nil {
		switch r.Method {
		case "GET":
			defer callback.StateGET(r)
		case "POST":
			defer callback.StatePOST(r)
		case "DELETE":
			defer callback.StateDELETE(r)
		case "LOCK":
			defer callback.StateLOCK(r)
		case "UNLOCK":
			defer callback.StateUNLOCK(r)
		}
	}
	forward(w, r, pathOf(h, func(path string) {
		prepare("POST", path, []byte(h.data[h.getResource(r)]))
	}))
}
