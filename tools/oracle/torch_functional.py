#!/usr/bin/env python3
"""Print what crates/rustorch-tensor/tests/it/functional.rs expects: a gradient penalty, a MAML step, and `torch.autograd.functional`.

    python tools/oracle/torch_functional.py
"""

import torch
torch.set_default_dtype(torch.float64)
# gradient penalty
x=torch.tensor([[0.5,-1.0],[1.5,2.0]]); w=torch.tensor([[0.3],[-0.7]],requires_grad=True); b=torch.tensor([0.1],requires_grad=True)
x.requires_grad_(True)
score=torch.tanh(x@w+b).sum()
g,=torch.autograd.grad(score,x,create_graph=True)
pen=((g.norm(2,dim=1)-1)**2).mean()
loss=score*0.1+pen
print("pen",pen.item(), [t.tolist() for t in torch.autograd.grad(loss,[w,b])])
# MAML step
w=torch.tensor([0.2,-0.4],requires_grad=True)
xs=torch.tensor([[1.,2.],[3.,-1.]]); ys=torch.tensor([0.5,-0.5]); xq=torch.tensor([[0.5,1.],[-1.,2.]]); yq=torch.tensor([1.,0.])
inner=((torch.tanh(xs@w)-ys)**2).mean()
gi,=torch.autograd.grad(inner,w,create_graph=True)
w2=w-0.1*gi
outer=((torch.tanh(xq@w2)-yq)**2).mean()
print("maml",outer.item(), torch.autograd.grad(outer,w)[0].tolist())
# functional
from torch.autograd import functional as F
f=lambda a,b:(torch.sin(a)*b, (a*b).sum())
a=torch.tensor([0.3,-0.8]);b=torch.tensor([1.2,0.5])
print("jac",[[t.tolist() for t in r] for r in F.jacobian(f,(a,b))])
h=lambda a,b:(torch.exp(a)*b*b).sum()+ (a[0]*b[1])
print("hes",[[t.tolist() for t in r] for r in F.hessian(h,(a,b))])
va=torch.tensor([0.7,-0.2]);vb=torch.tensor([-0.1,0.4])
print("hvp",[t.tolist() for t in F.hvp(h,(a,b),(va,vb))[1]])
print("jvp",[t.tolist() for t in F.jvp(f,(a,b),(va,vb))[1]])
print("vjp",[t.tolist() for t in F.vjp(f,(a,b),(va,torch.tensor(2.0)))[1]])
