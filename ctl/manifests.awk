# SPDX-License-Identifier: Apache-2.0
#
# awk -f manifests.awk FILE...: the manifests of crd/ as C, for ctl/manifests.h. Each YAML document becomes one entry; those of
# a *.in file are for a node, or for one with a certificate, all others for the cluster. Knows no more of YAML than our own files use: two spaces, and
# apiVersion, kind, metadata.name and metadata.namespace on lines of their own.

function escaped(text) {
	gsub(/[\\"]/, "\\\\&", text)
	return text
}

function quoted(text) {
	return "\"" escaped(text) "\""
}

function value_of(line) {
	sub(/^ *[A-Za-z]+: */, "", line)
	gsub(/"/, "", line)
	return line
}

function flush_document() {
	if (kind != "") {
		# No sprintf: some awks bound its result to a few kilobytes.
		entry = "    { " quoted(api_version) ", " quoted(kind) ", " quoted(namespace) ", " quoted(name) ",\n" text "    },\n"
		if (for_certificate)
			certificate = certificate entry
		else if (for_node)
			node = node entry
		else
			cluster = cluster entry
	}
	api_version = kind = namespace = name = text = section = ""
}

FNR == 1 {
	flush_document()
	for_node = FILENAME ~ /\.in$/
	for_certificate = FILENAME ~ /certificate.*\.in$/
}
/^---/ { flush_document(); next }
/^#/ { next }
/^apiVersion:/ { api_version = value_of($0) }
/^kind:/ { kind = value_of($0) }
/^[a-zA-Z]+:/ { section = $1 }
section == "metadata:" && /^  name:/ { name = value_of($0) }
section == "metadata:" && /^  namespace:/ { namespace = value_of($0) }
{ text = text "      \"" escaped($0) "\\n\"\n" }

END {
	flush_document()
	print "// Made from crd/ by ctl/manifests.awk."
	print "#include \"ctl/manifests.h\"\n"
	print "const struct manifest cluster_manifests[] = {\n" cluster "    { 0 },\n};\n"
	print "const struct manifest node_manifests[] = {\n" node "    { 0 },\n};\n"
	print "const struct manifest certificate_manifests[] = {\n" certificate "    { 0 },\n};"
}
