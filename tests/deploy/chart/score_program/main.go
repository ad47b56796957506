// Command score runs all checks of kube-score, also the optional ones, on the manifests of standard input. It prints the
// findings as JSON. Grades below 10 are findings: 1 is critical, 5 a warning, 7 almost in order.
package main

import (
	"encoding/json"
	"io"
	"log"
	"os"

	"github.com/zegl/kube-score/config"
	"github.com/zegl/kube-score/domain"
	"github.com/zegl/kube-score/parser"
	"github.com/zegl/kube-score/score"
	"github.com/zegl/kube-score/score/checks"
	"github.com/zegl/kube-score/scorecard"
)

// finding is one comment of a check about an object, or the check itself if it has no comment.
type finding struct {
	Check   string `json:"check"`
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Grade   int    `json:"grade"`
	Path    string `json:"path"`
	Summary string `json:"summary"`
}

// answer has the findings, and how many checks looked at an object.
type answer struct {
	Checked  int       `json:"checked"`
	Findings []finding `json:"findings"`
}

// stdin gives standard input a name, which kube-score shows in its output.
type stdin struct{ io.Reader }

func (stdin) Name() string { return "stdin" }

func grade(kubernetes config.Semver) (*scorecard.Scorecard, error) {
	optional := map[string]struct{}{}
	for _, check := range score.RegisterAllChecks(parser.Empty(), nil, nil).All() {
		if check.Optional {
			optional[check.ID] = struct{}{}
		}
	}
	run := &config.RunConfiguration{
		EnabledOptionalTests:  optional,
		KubernetesVersion:     kubernetes,
		MinReplicasDeployment: 2,
		MinReplicasHPA:        2,
	}
	reader, err := parser.New(&parser.Config{})
	if err != nil {
		return nil, err
	}
	objects, err := reader.ParseFiles([]domain.NamedReader{stdin{os.Stdin}})
	if err != nil {
		return nil, err
	}
	return score.Score(objects, score.RegisterAllChecks(objects, &checks.Config{}, run), run)
}

func main() {
	kubernetes, err := config.ParseSemver(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	card, err := grade(kubernetes)
	if err != nil {
		log.Fatal(err)
	}
	found := answer{Findings: []finding{}}
	for _, object := range *card {
		for _, result := range object.Checks {
			if result.Skipped {
				continue
			}
			found.Checked++
			if result.Grade >= scorecard.GradeAllOK {
				continue
			}
			comments := result.Comments
			if len(comments) == 0 {
				comments = []scorecard.TestScoreComment{{}}
			}
			for _, comment := range comments {
				found.Findings = append(found.Findings, finding{
					Check: result.Check.ID, Kind: object.TypeMeta.Kind, Name: object.ObjectMeta.Name,
					Grade: int(result.Grade), Path: comment.Path, Summary: comment.Summary,
				})
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}
