# SPDX-License-Identifier: Apache-2.0
#
# awk -f fields.awk FILE...: which fields a spec may have, out of the CRDs of crd/, as C for flow/fields.h. Knows no more of YAML than our
# own files use: a key on each line, texts of several lines after >- or |.

function column(line) {
	match(line, /^[ -]*/)
	return RLENGTH
}

# A text that goes on is not looked into.
in_text { if (column($0) > text_at || $0 ~ /^ *$/) next; in_text = 0 }

/^ *#/ || !/^[ -]*[A-Za-z0-9$-]+:/ { next }

FNR == 1 { depth = 0 }

{
	at = column($0)
	dash = $0 ~ /^ *- /
	key = $0
	sub(/^[ -]*/, "", key)
	value = key
	sub(/:.*/, "", key)
	sub(/^[^:]*: */, "", value)
	if (value ~ /^[>|]/) { in_text = 1; text_at = at }
	while (depth > 0 && column_of[depth] >= at)
		depth--
	above = depth > 0 ? what[depth] : ""
	level = depth > 0 ? level_of[depth] : -1
	if (key == "kind" && what[depth] == "names") kind = value
	if (above == "members") { is = "member"; level++ }
	else if (key == "openAPIV3Schema") { is = "schema"; level = -1 }
	else if (key == "names") is = "names"
	else if (key == "properties" && !dash && above ~ /^(schema|member|item)$/) is = "members"
	else if (key == "items" && above == "member") is = "item"
	else if (key ~ /^(additionalProperties|x-kubernetes-preserve-unknown-fields)$/ && above ~ /^(member|item)$/) { is = "item"; form[last] = "{}" }
	else is = "other"
	depth++
	column_of[depth] = at
	what[depth] = is
	level_of[depth] = level
	if (is == "member" && level == 0) in_spec = key == "spec"
	if (is == "member" && level == 0 && in_spec) { n_kinds++; name[n_kinds] = kind; first[n_kinds] = n + 1 }
	if (is == "member" && level > 0 && in_spec) { last = ++n; line[n] = sprintf("%" level - 1 "s%s", "", key); until[n_kinds] = n }
}

END {
	print "// Made from crd/ by agent/flow/fields.awk."
	print "#include \"flow/fields.h\"\n"
	print "const struct kind_fields kind_fields[] = {"
	for (k = 1; k <= n_kinds; k++) {
		print "    { \"" name[k] "\","
		for (i = first[k]; i <= until[k]; i++)
			print "      \"" line[i] form[i] "\\n\""
		print "    },"
	}
	print "    { 0 },\n};"
}
