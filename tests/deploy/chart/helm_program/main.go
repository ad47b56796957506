// Command helm lints and renders a chart with Helm's own code: its loader, values, schema validation, engine and
// linter. It answers one request per line of standard input, in JSON, because starting a program for each is slow.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/strvals"
)

// request is one command: lint, template or upgrade (a template as for an upgrade), with files of values and values of `--set` and `--set-file`.
type request struct {
	Command   string   `json:"command"`
	Chart     string   `json:"chart"`
	Release   string   `json:"release"`
	Namespace string   `json:"namespace"`
	Kube      string   `json:"kube"`
	Values    []string `json:"values"`
	Set       []string `json:"set"`
	SetJSON   []string `json:"set_json"`
	SetFile   []string `json:"set_file"`
}

// answer has the rendered files by path, the linter's messages, and the error that ended the command.
type answer struct {
	Files    map[string]string `json:"files"`
	Messages []string          `json:"messages"`
	Error    string            `json:"error"`
}

// values merges the files in their order, and then the values of the options, as Helm's command line does.
func (r request) values() (map[string]interface{}, error) {
	merged := map[string]interface{}{}
	for _, path := range r.Values {
		given, err := chartutil.ReadValuesFile(path)
		if err != nil {
			return nil, err
		}
		merged = chartutil.CoalesceTables(given, merged)
	}
	readFile := func(path []rune) (interface{}, error) {
		content, err := os.ReadFile(string(path))
		return string(content), err
	}
	for _, value := range r.SetJSON {
		if err := strvals.ParseJSON(value, merged); err != nil {
			return nil, err
		}
	}
	for _, value := range r.Set {
		if err := strvals.ParseInto(value, merged); err != nil {
			return nil, err
		}
	}
	for _, value := range r.SetFile {
		if err := strvals.ParseIntoFile(value, merged, readFile); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

func (r request) lint(given map[string]interface{}, kube *chartutil.KubeVersion) answer {
	result := answer{}
	for _, message := range lint.AllWithKubeVersion(r.Chart, given, r.Namespace, kube).Messages {
		result.Messages = append(result.Messages, fmt.Sprint(message))
	}
	return result
}

func (r request) template(given map[string]interface{}, kube *chartutil.KubeVersion) (answer, error) {
	loaded, err := loader.Load(r.Chart)
	if err != nil {
		return answer{}, err
	}
	upgrade := r.Command == "upgrade"
	options := chartutil.ReleaseOptions{
		Name: r.Release, Namespace: r.Namespace, Revision: 1, IsInstall: !upgrade, IsUpgrade: upgrade,
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *kube
	merged, err := chartutil.ToRenderValues(loaded, given, options, capabilities)
	if err != nil {
		return answer{}, err
	}
	files, err := engine.Engine{Strict: false}.Render(loaded, merged)
	return answer{Files: files}, err
}

func (r request) run() (answer, error) {
	given, err := r.values()
	if err != nil {
		return answer{}, err
	}
	kube, err := chartutil.ParseKubeVersion(r.Kube)
	if err != nil {
		return answer{}, err
	}
	if r.Command == "lint" {
		return r.lint(given, kube), nil
	}
	return r.template(given, kube)
}

func main() {
	log.SetOutput(os.Stderr)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	encoder := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked request
		result, err := answer{}, json.Unmarshal(lines.Bytes(), &asked)
		if err == nil {
			result, err = asked.run()
		}
		if err != nil {
			result.Error = err.Error()
		}
		if err := encoder.Encode(result); err != nil {
			log.Fatal(err)
		}
	}
}
