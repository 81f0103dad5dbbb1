// SPDX-License-Identifier: Apache-2.0
// node_certificate — the side of the cluster's owner of a node's client certificate: its user's name, and the request for it.
#ifndef CTL_NODE_CERTIFICATE_H
#define CTL_NODE_CERTIFICATE_H

#include "ctl/node.h"

enum { CERT_USER_MAX = 300 };

// A user that there never was: "limpet:node:NAME:" and eight random digits.
void node_user_new(char out[CERT_USER_MAX], struct api *a, const char *node);
// Takes away what crd/node-certificate.yaml.in grants, and a request that is under way. Absent is no error.
int node_user_revoke(struct api *a, const char *ns, struct err *e) MUST_USE;

// A CertificateSigningRequest as the node `node` with that user may make it, and nobody else: E_FORBIDDEN says what is amiss.
int node_request_judge(struct api *a, const struct json *request, const char *node, const char *ns, const char *user,
                       struct err *e) MUST_USE;

#endif
