package charts

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// series is what Prometheus would keep of the scrapes: samples by labels.
type series map[string]*oneSeries

type oneSeries struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// point is a sample.
type point struct {
	t int64
	v float64
}

func (p point) T() int64                      { return p.t }
func (p point) ST() int64                     { return 0 }
func (p point) F() float64                    { return p.v }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

// add keeps the samples of one scrape, with the labels of its target.
func (s series) add(t *testing.T, raw []byte, target map[model.LabelName]model.LabelValue, at time.Time) {
	t.Helper()
	text := expfmt.NewTextParser(model.UTF8Validation)
	families, err := text.TextToMetricFamilies(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(at.UnixNano())}, family)
		if err != nil {
			t.Fatal(err)
		}
		for _, sample := range samples {
			maps.Copy(sample.Metric, target)
			words := map[string]string{}
			for k, v := range sample.Metric {
				words[string(k)] = string(v)
			}
			l := labels.FromMap(words)
			if s[l.String()] == nil {
				s[l.String()] = &oneSeries{labels: l}
			}
			s[l.String()].samples = append(s[l.String()].samples, point{at.UnixMilli(), float64(sample.Value)})
		}
	}
}

// Querier implements storage.Queryable.
func (s series) Querier(int64, int64) (storage.Querier, error) { return querier{series: s}, nil }

type querier struct {
	storage.LabelQuerier
	series series
}

func (querier) Close() error { return nil }

// Select implements storage.Querier.
func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, key := range slices.Sorted(maps.Keys(q.series)) {
		one := q.series[key]
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.labels.Get(m.Name)) }) {
			continue
		}
		slices.SortFunc(one.samples, func(a, b chunks.Sample) int { return int(a.T() - b.T()) })
		found = append(found, storage.NewListSeries(one.labels, one.samples))
	}
	return &seriesSet{found: found}
}

type seriesSet struct {
	found []storage.Series
	at    int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at <= len(s.found) }
func (s *seriesSet) At() storage.Series                { return s.found[s.at-1] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }
