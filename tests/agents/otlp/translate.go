package main

import (
	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
)

// dictionary fills the tables that all profiles of a message share. Entry 0 of each table means "none".
type dictionary struct {
	tables     pprofile.ProfilesDictionary
	strings    map[string]int32
	attributes map[[2]string]int32
	functions  map[*profile.Function]int32
	locations  map[*profile.Location]int32
}

func newDictionary(tables pprofile.ProfilesDictionary) *dictionary {
	d := &dictionary{
		tables:     tables,
		strings:    map[string]int32{},
		attributes: map[[2]string]int32{},
		functions:  map[*profile.Function]int32{},
		locations:  map[*profile.Location]int32{},
	}
	d.text("")
	tables.MappingTable().AppendEmpty()
	tables.LocationTable().AppendEmpty()
	tables.FunctionTable().AppendEmpty()
	tables.LinkTable().AppendEmpty()
	tables.AttributeTable().AppendEmpty()
	tables.StackTable().AppendEmpty()
	return d
}

func (d *dictionary) text(s string) int32 {
	index, known := d.strings[s]
	if !known {
		index = int32(d.tables.StringTable().Len())
		d.tables.StringTable().Append(s)
		d.strings[s] = index
	}
	return index
}

func (d *dictionary) attribute(key, value string) int32 {
	pair := [2]string{key, value}
	index, known := d.attributes[pair]
	if !known {
		index = int32(d.tables.AttributeTable().Len())
		entry := d.tables.AttributeTable().AppendEmpty()
		entry.SetKeyStrindex(d.text(key))
		entry.Value().SetStr(value)
		d.attributes[pair] = index
	}
	return index
}

func (d *dictionary) function(f *profile.Function) int32 {
	index, known := d.functions[f]
	if !known {
		index = int32(d.tables.FunctionTable().Len())
		entry := d.tables.FunctionTable().AppendEmpty()
		entry.SetNameStrindex(d.text(f.Name))
		entry.SetSystemNameStrindex(d.text(f.SystemName))
		entry.SetFilenameStrindex(d.text(f.Filename))
		entry.SetStartLine(f.StartLine)
		d.functions[f] = index
	}
	return index
}

func (d *dictionary) location(l *profile.Location) int32 {
	index, known := d.locations[l]
	if !known {
		index = int32(d.tables.LocationTable().Len())
		entry := d.tables.LocationTable().AppendEmpty()
		entry.SetAddress(l.Address)
		for _, inlined := range l.Line {
			line := entry.Lines().AppendEmpty()
			line.SetFunctionIndex(d.function(inlined.Function))
			line.SetLine(inlined.Line)
		}
		d.locations[l] = index
	}
	return index
}

func (d *dictionary) stack(locations []*profile.Location) int32 {
	index := int32(d.tables.StackTable().Len())
	entry := d.tables.StackTable().AppendEmpty()
	for _, location := range locations { // leaf first, in both
		entry.LocationIndices().Append(d.location(location))
	}
	return index
}

func (d *dictionary) valueType(to pprofile.ValueType, from *profile.ValueType) {
	to.SetTypeStrindex(d.text(from.Type))
	to.SetUnitStrindex(d.text(from.Unit))
}

// translate makes a profile of each sample type, as OTLP has one type for each.
func translate(seen *profile.Profile, service string) pprofile.Profiles {
	message := pprofile.NewProfiles()
	d := newDictionary(message.Dictionary())
	resource := message.ResourceProfiles().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", service)
	resource.Resource().Attributes().PutStr("env", "test")
	resource.Resource().Attributes().PutStr("lang", "otlp")
	scope := resource.ScopeProfiles().AppendEmpty()
	stacks := make([]int32, len(seen.Sample))
	for i, sample := range seen.Sample {
		stacks[i] = d.stack(sample.Location)
	}
	for i, sampleType := range seen.SampleType {
		out := scope.Profiles().AppendEmpty()
		d.valueType(out.SampleType(), sampleType)
		d.valueType(out.PeriodType(), seen.PeriodType)
		out.SetPeriod(seen.Period)
		out.SetTime(pcommon.Timestamp(seen.TimeNanos))
		out.SetDurationNano(uint64(seen.DurationNanos))
		for at, sample := range seen.Sample {
			entry := out.Samples().AppendEmpty()
			entry.SetStackIndex(stacks[at])
			entry.Values().Append(sample.Value[i])
			for key, values := range sample.Label {
				entry.AttributeIndices().Append(d.attribute(key, values[0]))
			}
		}
	}
	return message
}
